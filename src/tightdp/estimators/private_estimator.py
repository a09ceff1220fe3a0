"""What all private estimators share: public bounds, one payment, one release, no shared noise."""

from __future__ import annotations

import copy
import inspect
import sys
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Generic, NoReturn, Self, TypeVar, dataclass_transform

from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted

from tightdp.accepted import Number, TableLike
from tightdp.data.design_matrix import DesignMatrix
from tightdp.errors import FloatArray, LackingError, LedgerError, PrivacyWarning, fail
from tightdp.estimators.class_documentation import documentation
from tightdp.estimators.inputs import (
    Bounds,
    Column,
    Problem,
    fitted_cells,
    read_problem,
    read_whole,
)
from tightdp.ledger import Ledger
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.named_arguments import refuse_arguments
from tightdp.preview import Preview
from tightdp.privacy import Guarantee
from tightdp.randomness import RandomLike, RandomSource, source
from tightdp.release import Release

M = TypeVar("M", bound=Mechanism)
T = TypeVar("T")

_FIRST, _LAST = ("delta",), ("progress", "ledger", "random_state")  # after the leading; of all

_WEIGHT_REASON = (
    "`sample_weight` is not supported: a weight multiplies what one row can change, and weights "
    "are data that would need public bounds and noise of their own. Fit without weights."
)


def parameter(*, default: T, kw_only: bool) -> T:
    """The default of a parameter; type checkers are told whether it needs its name."""
    return default


@dataclass_transform(kw_only_default=True, field_specifiers=(parameter,))
class PrivateEstimator(BaseEstimator, Generic[M]):  # type: ignore[misc]
    """Base of the private estimators: each is a mechanism with the scikit-learn contract.

    A subclass declares the parameters that it adds (annotated, with defaults; the constructor that
    scikit-learn wants is made from them), makes its mechanism (``_mechanism``) and says how fitted
    attributes come from a release (``_read``).

    Parameters
    ----------
    epsilon : float, Fraction or Decimal
        The privacy budget of a fit.
    bounds : pair, list of pairs, or Schema
        Public bounds: one pair for all columns, pairs for the features and then the target, or a
        Schema (which may hold categories). Cells outside are moved to the nearer bound.
    progress : bool
        Show a progress bar while rows are read, where ``tqdm`` is installed.
    ledger : Ledger, optional
        Charged once for every fit; clones share it.
    random_state : None, int, Generator or RandomState
        None is a fresh cryptographic source for every fit. Anything else marks the release as
        seeded: it is for tests, and **not private**.

    Attributes
    ----------
    release_ : Release
        What was published, with its guarantee and its payment.
    guarantee_ : Guarantee
    mechanism_ : Mechanism
    schema_ : Schema
        The public facts of the fit.

    Notes
    -----
    The number of rows is public (``replace-one``): it is the length of ``X``, or what a schema
    states, and then a table of another length is refused. For folds of a table, which are shorter,
    state ``bounds=list(schema.columns.values())``. Whatever is computed from private rows outside
    ``fit``, such as ``score`` or a cross-validated score, is not covered by the guarantee; nor is
    what the steps of a pipeline learn before it, of which a
    :class:`~tightdp.errors.PrivacyWarning` tells.
    """

    epsilon: Number = parameter(default=1.0, kw_only=False)
    bounds: Bounds = parameter(default=None, kw_only=False)
    progress: bool = False
    ledger: Ledger | LostLedger | None = None
    random_state: RandomLike = None

    _leading: ClassVar[tuple[str, ...]] = ("epsilon", "bounds")  # these need no name

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" not in cls.__dict__:  # who writes a constructor has it
            cls.__init__ = cls._constructor()  # type: ignore[method-assign]
        cls.__doc__ = documentation(cls)

    @classmethod
    def _declared(cls) -> dict[str, Any]:
        """The annotations of all parameters that the class and its bases declare."""
        return {
            name: text
            for base in reversed(cls.__mro__)
            if issubclass(base, PrivateEstimator)
            for name, text in vars(base).get("__annotations__", {}).items()
            if name in vars(base) and not name.startswith("_")
        }

    @classmethod
    def _constructor(cls) -> Callable[..., None]:
        """An ``__init__`` that takes all declared parameters; all but the leading by name."""
        leading, declared = cls._leading, cls._declared()
        first = [*leading, *(name for name in _FIRST if name in declared)]
        order = [*first, *(name for name in declared if name not in (*first, *_LAST)), *_LAST]
        by_place, by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        own = inspect.Signature(
            [
                inspect.Parameter(
                    name,
                    by_place if name in leading else by_name,
                    default=getattr(cls, name),
                    annotation=declared[name],
                )
                for name in order
            ]
        )

        def __init__(self: Any, *given: Any, **named: Any) -> None:  # noqa: N807
            try:
                bound = own.bind(*given, **named)
            except TypeError:
                refuse_arguments(type(self).__name__, own, given, named)
            bound.apply_defaults()
            for name in order:
                setattr(self, name, bound.arguments[name])

        whole = [inspect.Parameter("self", by_place), *own.parameters.values()]
        __init__.__signature__ = own.replace(parameters=whole)  # type: ignore[attr-defined]
        return __init__

    # --- fitting ------------------------------------------------------------------------------

    def fit(
        self, X: TableLike, y: object = None, *, key: str | None = None, **unsupported: object
    ) -> Self:
        """Check everything, pay, read the data once, release, estimate.

        Parameters
        ----------
        X : table
            An array or frame of features; or, if ``y`` is the name of a column, any table that
            holds features and target: a frame, a DuckDB relation, a Spark frame, or a path.
        y : array, or str
        key : str, optional
            A key that the ledger already holds gives the stored release again and costs nothing.
        """
        _refuse(unsupported)
        self._purse()
        _warn_of_learned_steps(self)
        before = dict(self.__dict__)
        try:
            problem = self._problem(X, y)
            if key is not None and self.ledger is None:
                fail("`key` needs a `ledger` that remembers it.")
            self.release_ = self._fit(problem, key, self._source())
        except BaseException:  # the last fit stays, with the columns that it knows
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _problem(self, X: TableLike, y: object) -> Problem:
        """Table, schema and roles; sets ``n_features_in_`` and ``feature_names_in_``."""
        return read_problem(self, X, y, self._public_bounds(), self._target_column(y))

    def _fit(self, problem: Problem, key: str | None, rng: RandomSource) -> Release:
        """Pay, release, and set the fitted attributes."""
        mechanism = self._mechanism(problem)
        release = mechanism.release(
            problem.frame,
            ledger=self._purse(),
            key=key,
            confidence=getattr(self, "confidence", 0.95),
            rng=rng,
            progress=self.progress,
        )
        self.schema_, self.mechanism_ = problem.schema, mechanism
        return self._read(mechanism, release)

    @abstractmethod
    def _mechanism(self, problem: Problem) -> M:
        """What releases, with its parameters checked; neither data nor budget are touched."""

    @abstractmethod
    def _read(self, mechanism: M, release: Release) -> Release:
        """Set the fitted attributes, and give what is published of the release."""

    def _model(self, kind: type[M], problem: Problem) -> M:
        """A mechanism of features and a target, with the parameters that it has in common."""
        roles = {"features": problem.features, "target": problem.target}
        return kind(schema=problem.schema, **roles, **self._options(kind))  # type: ignore[call-arg]

    def _options(self, kind: type) -> dict[str, Any]:
        """The parameters of the estimator that a mechanism takes, too.

        All that are declared, whichever of them a constructor of the user's own leaves open.
        """
        taken = inspect.signature(kind).parameters
        return {name: getattr(self, name) for name in self._declared() if name in taken}

    def _public_bounds(self) -> Bounds:
        """The bounds as :mod:`~tightdp.estimators.inputs` reads them."""
        return self.bounds

    def _target_column(self, y: object) -> Column | None:
        """Public facts about the target that the estimator knows itself (classes), else None."""
        return None

    def _purse(self) -> Ledger | None:
        """The ledger that pays; a model that lost its own must be given another."""
        if isinstance(self.ledger, LostLedger):
            fail(
                "This model was saved or copied, and its ledger was not: it can predict. To fit it "
                "again, say set_params(ledger=Ledger.open(path)); set_params(ledger=None) fits "
                "without payment.",
                LedgerError,
            )
        return self.ledger

    def _source(self) -> RandomSource:
        """A fresh secure source, or a seeded one that says so."""
        state = self.random_state
        if state is not None and hasattr(state, "randint"):  # a RandomState moves on
            return source(int(check_random_state(state).randint(0, 2**31 - 1)))
        return source(state)

    def preview(self, X: TableLike, y: object = None) -> Preview:
        """The error to expect; looks at names and the number of rows only, and costs nothing."""
        asked = copy.copy(self)  # a fitted model keeps the columns of its fit
        return asked._mechanism(asked._problem(X, y)).preview()

    # --- using a fit --------------------------------------------------------------------------

    @property
    def guarantee_(self) -> Guarantee:
        """What the last fit promises."""
        check_is_fitted(self, "release_")
        return self.release_.guarantee

    def _scaled_rows(self, X: TableLike) -> FloatArray:
        """Feature rows as the fit saw them: clamped, missing cells replaced, scaled to [-1, 1].

        Codes stand for the levels of categories. Shape (n, features).
        """
        check_is_fitted(self, "release_")
        *names, target = self.schema_
        return fitted_cells(self, X, self.schema_.select(names), unread=target)

    def _design_rows(self, X: TableLike) -> FloatArray:
        """Rows in user units, clamped as in the fit; categories as indicators but for the first."""
        cells = self._scaled_rows(X)
        *names, target = self.schema_
        return DesignMatrix(self.schema_, names, target).user_rows(cells)

    # --- the scikit-learn contract ------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # missing cells follow the public rule of the schema
        tags.non_deterministic = self.random_state is None
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """What a file or a deep copy holds: all of a fitted model but its ledger."""
        state: dict[str, Any] = dict(super().__getstate__())
        state["ledger"] = left_behind(self.ledger, fitted=hasattr(self, "release_"))
        return state

    def __copy__(self) -> Self:
        shell = type(self).__new__(type(self))
        shell.__dict__.update(self.__dict__)
        return shell

    def __sklearn_clone__(self) -> Self:
        # A clone pays from the same ledger, which refuses to be copied, and draws its own noise.
        shell = copy.copy(self)
        shell.ledger = None
        clone: Self = super(PrivateEstimator, shell).__sklearn_clone__()
        clone.ledger = self.ledger
        return clone


class Untargeted(PrivateEstimator[M]):
    """Base of estimators of a table as a whole: there is no target, and all columns are alike."""

    def _problem(self, X: TableLike, y: object) -> Problem:
        return read_whole(self, X, self.bounds)


class Lacking:
    """In place of a method that other estimators have: why there is none, and what to use instead.

    >>> class Guess:
    ...     conf_int = Lacking("it knows no error. Use another one.")
    >>> hasattr(Guess(), "conf_int")
    False
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, model: object, kind: type) -> NoReturn:
        fail(f"`{kind.__name__}` has no `{self.name}`: {self.reason}", LackingError)


PRINTED = "print(model.release_) shows what was released."
NO_TESTS = "LinearRegression has tests of coefficients."


def _refuse(unsupported: Mapping[str, object]) -> None:
    if unsupported.get("sample_weight") is not None:
        fail(_WEIGHT_REASON)
    unknown = [name for name in unsupported if name != "sample_weight"]
    if unknown:
        fail(f"`fit` has no parameter {unknown[0]!r}. It has X, y and key.")


# --- ledgers that fitted models leave behind when they are saved or copied ------------------------


class LostLedger:
    """What stands for the ledger of a model that was saved or copied: fits are refused.

    A copy of a ledger would spend the same budget again, and a fit without one is not paid for.
    """

    def __repr__(self) -> str:
        return "<not saved: set_params(ledger=...)>"


def left_behind(ledger: Ledger | LostLedger | None, *, fitted: bool) -> Ledger | LostLedger | None:
    """What is saved in place of a ledger; a model that is still to pay keeps one in a file.

    One in memory is refused when it is pickled: processes would each spend its budget.

    >>> left_behind(Ledger(epsilon=1), fitted=True)
    <not saved: set_params(ledger=...)>
    """
    if ledger is None or isinstance(ledger, LostLedger):
        return ledger
    return LostLedger() if fitted else ledger


# --- what a pipeline learns from the rows before the estimator sees them is not private -----------


def _warn_of_learned_steps(estimator: BaseEstimator) -> None:
    """Warn if ``estimator`` is being fitted behind steps that were fitted on the same rows.

    The steps are looked at, never the rows: the warning is the same for every table. Scikit-learn
    does not tell an estimator what it is part of, so the calls that led here are asked: a pipeline
    that ends in the estimator, or a regressor whose target is transformed.
    """
    names = sorted({type(step).__name__ for step in _before(estimator) if _learns(step)})
    if names:
        warnings.warn(
            f"{', '.join(names)} learned from the rows before {type(estimator).__name__} did, "
            "without noise: the guarantee does not cover what this reveals. Scale by public bounds "
            "instead: `bounds` does it.",
            PrivacyWarning,
            stacklevel=3,
        )


def _before(estimator: BaseEstimator) -> Iterator[object]:
    """All steps that rows pass before they reach the estimator, innermost first."""
    inner, frame = estimator, sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, Pipeline) and owner.steps and owner.steps[-1][1] is inner:
            yield from (step for _, step in owner.steps[:-1])
            inner = owner
        elif isinstance(owner, TransformedTargetRegressor):
            yield owner.transformer
        frame = frame.f_back  # type: ignore[assignment]


def _learns(step: object) -> bool:
    """Whether a step is fitted on rows; steps that hold others are asked for theirs."""
    if step is None or isinstance(step, str):  # nothing, "drop" or "passthrough"
        return False
    if isinstance(step, PrivateEstimator):  # it learned, with noise that was paid for
        return False
    if isinstance(step, Pipeline):
        return any(_learns(inner) for _, inner in step.steps)
    if isinstance(step, FeatureUnion):
        return any(_learns(inner) for _, inner in step.transformer_list)
    if isinstance(step, ColumnTransformer):
        return any(_learns(inner) for _, inner, _ in step.transformers)
    return bool(get_tags(step).requires_fit)
