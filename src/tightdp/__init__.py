"""tightdp: statistics under differential privacy with the least noise, and the proof."""

from tightdp.accounting import Cost
from tightdp.audit import AuditReport, Finding, audit, audit_exact, audit_pmf, hockey_stick
from tightdp.data.checks import TableCheck
from tightdp.data.column_moments import SumsAndRows, SumsAndSquares
from tightdp.data.csv_files import CsvFile
from tightdp.data.excel_sheets import ExcelFile
from tightdp.data.histograms import Histogram, JointHistogram
from tightdp.data.regression_moments import Moments
from tightdp.data.row_facts import CappedSums, Flags
from tightdp.data.statistics import Counts, Products, Statistic, Sums
from tightdp.data.weighted_moments import WeightedMoments
from tightdp.design.certificate import Certificate
from tightdp.design.composed import design_composed_noise
from tightdp.design.composed_law import ComposedDesign
from tightdp.design.designs import Design, design_noise, load_design
from tightdp.design.problem import NoiseProblem
from tightdp.design.radial_bound import RadialBound
from tightdp.design.radial_search import bound_radial_noise
from tightdp.design.range_law import DataDependentDesign
from tightdp.design.range_search import design_data_dependent_noise
from tightdp.design.suboptimality import suboptimality
from tightdp.design.vector import design_planar_noise, design_vector_noise
from tightdp.design.vector_law import PlanarDesign, VectorDesign
from tightdp.design.worst_event import WorstEvent, worst_event
from tightdp.errors import (
    BudgetError,
    BurnedError,
    DataError,
    DegenerateBodyError,
    DimensionError,
    InfeasibleSamplingError,
    LackingError,
    LedgerError,
    MissingDependencyError,
    ParameterError,
    PendingError,
    PublicFactWarning,
    TightdpError,
    UncoveredMoveError,
    UndecidedError,
)
from tightdp.estimators.lazy_names import attributes as __attributes
from tightdp.functions import (
    capped_sum,
    coefficient_test,
    correlation_test,
    count,
    find_rows_per_person,
    flags,
    goodness_of_fit,
    histogram,
    independence_test,
    kolmogorov_test,
    mean,
    means_test,
    median,
    missing_rate,
    population_mean,
    proportion_test,
    quantile,
    quantiles,
    rank_test,
    share,
    sum,
    variance,
)
from tightdp.geometry.combine import Intersection, LinearImage, Product
from tightdp.geometry.containment import containment
from tightdp.geometry.counting_balls import (
    CountBall,
    HistogramBall,
    ReplacedCountBall,
    SumBall,
)
from tightdp.geometry.moment_bodies import MomentBody
from tightdp.geometry.moment_hulls import K2, K3
from tightdp.geometry.moment_true_hull import MomentHull
from tightdp.geometry.norm_balls import Ellipsoid, LpBall, NormBall
from tightdp.geometry.nuclear_ball import NuclearBall
from tightdp.geometry.orders import containment_order, volume_order
from tightdp.geometry.polytopes import Polytope
from tightdp.geometry.poset_ball import PosetBall, ReplacedPosetBall
from tightdp.geometry.sensitivity import SensitivitySpace, certify_contains
from tightdp.geometry.structure import Structure, structure
from tightdp.geometry.vote_ball import VoteBall
from tightdp.geometry.zonotopes import Zonotope
from tightdp.inference.copies import combined_interval
from tightdp.ledger import Ledger
from tightdp.meaning import explain, guess_bound, power_bound
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.mechanisms.data_dependent import DataDependentMechanism
from tightdp.mechanisms.exponential import ExponentialMechanism, SquaredLossMean
from tightdp.mechanisms.gradient import KNormGradient, KNormRowGradient
from tightdp.mechanisms.gradient_median import KNormGeometricMedian
from tightdp.mechanisms.gradient_regression import KNormLinearRegression
from tightdp.mechanisms.joint_quantiles import KNormQuantiles
from tightdp.mechanisms.kolmogorov import KolmogorovSample
from tightdp.mechanisms.moment_tests import CorrelationTest, MeansTest
from tightdp.mechanisms.objective import ObjectivePerturbation
from tightdp.mechanisms.person_bounds import RowsPerPerson
from tightdp.mechanisms.population_means import PopulationMeans
from tightdp.mechanisms.private_keys import PrivateKeys
from tightdp.mechanisms.proportion import ProportionTest
from tightdp.mechanisms.quantile_regression import KNormQuantileRegression
from tightdp.mechanisms.quantiles import KNormMedian, KNormQuantile
from tightdp.mechanisms.ranks import find_bounds
from tightdp.mechanisms.regression_tests import RegressionTest
from tightdp.mechanisms.table_book import Tables
from tightdp.mechanisms.table_tests import (
    GoodnessOfFit,
    IndependenceTest,
    KolmogorovTest,
    RankTest,
)
from tightdp.noise.gaussian_laws import AnalyticGaussian, DiscreteGaussian, Gaussian
from tightdp.noise.knorm import KNormNoise, information_difference
from tightdp.noise.lattice import LatticeNoise
from tightdp.noise.lattice_laws import Geometric
from tightdp.noise.line_laws import Laplace, Staircase, TruncatedLaplace, Tulap
from tightdp.noise.nuclear import NuclearNoise
from tightdp.noise.on_lattice import lattice_noise
from tightdp.noise.piecewise import PiecewiseNoise
from tightdp.noise.range_noise import RangeNoise
from tightdp.noise.ranking import NormRanking, rank_norms
from tightdp.noise.rounded_gaussian import RoundedGaussian
from tightdp.noise.table_noise import TableNoise
from tightdp.preview import Preview
from tightdp.privacy import Guarantee, Neighbors
from tightdp.release import Release
from tightdp.sample_sizes import detectable, power, sample_size
from tightdp.schema import Category, Date, Interval, Schema
from tightdp.table_books import TableBook

__version__ = "0.2.0"

# imported when first named: the estimators need scikit-learn
__getattr__ = __attributes(
    __name__,
    {
        "CategoricalNB": "tightdp.estimators.naive_bayes",
        "GaussianNB": "tightdp.estimators.naive_bayes",
        "Density": "tightdp.estimators.density",
        "Covariance": "tightdp.estimators.covariance",
        "GeometricMedian": "tightdp.estimators.location",
        "LinearRegression": "tightdp.estimators.linear",
        "LogisticRegression": "tightdp.estimators.logistic",
        "HuberRegression": "tightdp.estimators.robust",
        "Mean": "tightdp.estimators.location",
        "Median": "tightdp.estimators.order",
        "NegativeBinomialRegression": "tightdp.estimators.count_models",
        "PCA": "tightdp.estimators.covariance",
        "PoissonRegression": "tightdp.estimators.count_models",
        "Quantile": "tightdp.estimators.order",
        "QuantileRegression": "tightdp.estimators.quantile",
        "Quantiles": "tightdp.estimators.order",
        "Ridge": "tightdp.estimators.linear",
        "SyntheticSample": "tightdp.estimators.synthetic",
        "SyntheticTable": "tightdp.estimators.synthetic_table",
        "SparseLinearRegression": "tightdp.estimators.sparse_linear",
        "SparseLogisticRegression": "tightdp.estimators.sparse",
        "Variance": "tightdp.estimators.location",
        "Plan": "tightdp.plans.plan",
        "Report": "tightdp.report.report",
        "compare_noise": "tightdp.compare",
        "epsilon_for": "tightdp.accuracy",
        "split_budget": "tightdp.budget_split",
    },
)

# what people use, by task: the API page has the same order
__all__ = [  # noqa: RUF022
    # Public facts
    "Schema",
    "Interval",
    "Category",
    "Date",
    "CsvFile",
    "ExcelFile",
    "Neighbors",
    "Guarantee",
    "TableCheck",
    "find_bounds",
    "find_rows_per_person",
    # Statistics in one line
    "sum",
    "mean",
    "variance",
    "count",
    "flags",
    "capped_sum",
    "histogram",
    "share",
    "missing_rate",
    "median",
    "quantile",
    "quantiles",
    # Tests of hypotheses
    "proportion_test",
    "goodness_of_fit",
    "independence_test",
    "kolmogorov_test",
    "rank_test",
    "means_test",
    "correlation_test",
    "coefficient_test",
    "population_mean",
    "power",
    "sample_size",
    "detectable",
    "ProportionTest",
    "GoodnessOfFit",
    "IndependenceTest",
    "KolmogorovTest",
    "RankTest",
    "MeansTest",
    "CorrelationTest",
    "RegressionTest",
    "PopulationMeans",
    # Budget
    "Ledger",
    "Cost",
    "Release",
    "Preview",
    "epsilon_for",
    "split_budget",
    "combined_interval",
    "compare_noise",
    "explain",
    "guess_bound",
    "power_bound",
    # Plans and reports
    "Plan",
    "Report",
    # Estimators
    "LinearRegression",
    "Ridge",
    "LogisticRegression",
    "SparseLinearRegression",
    "PoissonRegression",
    "NegativeBinomialRegression",
    "HuberRegression",
    "SparseLogisticRegression",
    "QuantileRegression",
    "GaussianNB",
    "CategoricalNB",
    "Mean",
    "Variance",
    "Median",
    "Quantile",
    "Quantiles",
    "GeometricMedian",
    "Covariance",
    "PCA",
    "Density",
    "SyntheticSample",
    "SyntheticTable",
    # Statistics and their sensitivity
    "Statistic",
    "Sums",
    "Counts",
    "Flags",
    "CappedSums",
    "Histogram",
    "JointHistogram",
    "Products",
    "Moments",
    "WeightedMoments",
    "SumsAndRows",
    "SumsAndSquares",
    "SensitivitySpace",
    "certify_contains",
    "structure",
    "Structure",
    "rank_norms",
    "NormRanking",
    # Mechanisms
    "AdditiveMechanism",
    "Tables",
    "TableBook",
    "DataDependentMechanism",
    "ExponentialMechanism",
    "KNormGradient",
    "KNormRowGradient",
    "KNormMedian",
    "KNormQuantile",
    "KNormQuantiles",
    "KNormGeometricMedian",
    "KNormLinearRegression",
    "KNormQuantileRegression",
    "KolmogorovSample",
    "PrivateKeys",
    "RowsPerPerson",
    "ObjectivePerturbation",
    "SquaredLossMean",
    # Noise by optimisation
    "design_noise",
    "load_design",
    "Design",
    "Certificate",
    "NoiseProblem",
    "suboptimality",
    "worst_event",
    "WorstEvent",
    "design_composed_noise",
    "ComposedDesign",
    "design_vector_noise",
    "VectorDesign",
    "design_planar_noise",
    "PlanarDesign",
    "bound_radial_noise",
    "RadialBound",
    "design_data_dependent_noise",
    "DataDependentDesign",
    # Laws of noise
    "KNormNoise",
    "LatticeNoise",
    "NuclearNoise",
    "lattice_noise",
    "Laplace",
    "TruncatedLaplace",
    "Staircase",
    "Tulap",
    "Geometric",
    "Gaussian",
    "AnalyticGaussian",
    "DiscreteGaussian",
    "RoundedGaussian",
    "PiecewiseNoise",
    "TableNoise",
    "RangeNoise",
    # Shapes
    "NormBall",
    "LpBall",
    "Ellipsoid",
    "Polytope",
    "Zonotope",
    "MomentBody",
    "MomentHull",
    "NuclearBall",
    "K2",
    "K3",
    "CountBall",
    "HistogramBall",
    "SumBall",
    "VoteBall",
    "PosetBall",
    "ReplacedCountBall",
    "ReplacedPosetBall",
    "Product",
    "Intersection",
    "LinearImage",
    "containment",
    "containment_order",
    "volume_order",
    "information_difference",
    # Audits
    "audit",
    "audit_exact",
    "audit_pmf",
    "hockey_stick",
    "AuditReport",
    "Finding",
    # Errors
    "TightdpError",
    "ParameterError",
    "DimensionError",
    "DataError",
    "BudgetError",
    "LedgerError",
    "PendingError",
    "BurnedError",
    "UndecidedError",
    "UncoveredMoveError",
    "InfeasibleSamplingError",
    "DegenerateBodyError",
    "LackingError",
    "MissingDependencyError",
    "PublicFactWarning",
]
