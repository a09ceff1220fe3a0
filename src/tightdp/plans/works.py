"""How a request is carried out: by a mechanism, or by a model that is fitted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from tightdp.answer import NO_INTERVAL, Answer
from tightdp.data.made_up import made_up_table
from tightdp.errors import check_confidence
from tightdp.estimators.coefficient_tables import pulled
from tightdp.estimators.doors import lazy
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.mechanisms.base import Mechanism
from tightdp.noise.enclosures import float_up
from tightdp.preview import MADE_UP_ROWS, Preview, of_rows, spread
from tightdp.privacy import Guarantee
from tightdp.randomness import source
from tightdp.release import Release
from tightdp.schema import Schema

_SEED = 20_260_102  # of tables that are made up for previews
_REPLICATES = 60
_MOST_ROWS = 20_000


class Work(Protocol):
    """What a request needs to be able to do."""

    def guarantee(self) -> Guarantee:
        """What the release will promise."""
        ...

    def preview(self, confidence: float) -> Preview:
        """The error to expect, from public facts."""
        ...

    def answer(self, frame: Any, **options: Any) -> Answer:
        """Pay, release, answer; options are those of a mechanism's ``release``."""
        ...


@dataclass(frozen=True, slots=True)
class MechanismWork:
    """A mechanism; ``release`` takes the place of its own, ``foresee`` adapts its preview."""

    mechanism: Mechanism
    release: Callable[..., Release] | None = None
    foresee: Callable[[Preview], Preview] | None = None
    about: str = ""

    def guarantee(self) -> Guarantee:
        return self.mechanism.guarantee()

    def preview(self, confidence: float) -> Preview:
        found = self.mechanism.preview(confidence)
        return found if self.foresee is None else self.foresee(found)

    def answer(self, frame: Any, **options: Any) -> Answer:
        make = self.mechanism.release if self.release is None else self.release
        release = make(frame, **options)
        found = self.mechanism.answer(release)
        return replace(found, about=self.about) if self.about else found


@dataclass(frozen=True, slots=True)
class ModelWork:
    """An estimator, by the name of its module and class, with a schema of its columns.

    ``reads`` makes the answer of a fitted model, ``foresees`` its preview; without them the release
    is the answer, and the preview is simulated on rows that fill their bounds evenly.
    """

    home: str
    schema: Schema
    target: str | None
    epsilon: Fraction
    options: Mapping[str, Any]
    reads: Callable[[Any, float], Answer] | None = None
    foresees: Callable[[ModelWork, float], Preview] | None = None

    def model(self, epsilon: Any = None, **options: Any) -> Any:
        """The estimator, not fitted."""
        module, _, name = self.home.partition(":")
        kind = lazy("tightdp.estimators", {name: module})(name)
        spent = self.epsilon if epsilon is None else epsilon
        return kind(epsilon=spent, bounds=self.schema, **self.options, **options)

    def guarantee(self) -> Guarantee:
        return Guarantee(
            epsilon=float_up(self.epsilon),
            neighbors=self.schema.neighbors,
            rows_per_person=self.schema.protected_rows,
        )

    def preview(self, confidence: float) -> Preview:
        if self.foresees is not None:
            return self.foresees(self, confidence)
        return self._simulated(confidence)

    def answer(self, frame: Any, **options: Any) -> Answer:
        key = options.pop("key", None)
        level = check_confidence(options.pop("confidence", 0.95))  # it is used after the payment
        state = options.pop("rng", None)
        options.pop("progress", None)  # estimators read once, without a bar
        model = self.model(random_state=state, **options)
        model.fit(frame, *([] if self.target is None else [self.target]), key=key)
        return Answer.of(model.release_) if self.reads is None else self.reads(model, level)

    def _simulated(self, confidence: float) -> Preview:
        """Errors on made-up rows; of a large table on fewer, for the noise shrinks like 1/rows."""
        few = replace(self, schema=self.schema.with_rows(min(self.schema.rows, _MOST_ROWS)))
        bits = source(_SEED)
        table = made_up_table(few.schema, bits)
        truth = replace(few, epsilon=Fraction(1000)).answer(table, rng=bits)
        found = [few.answer(table, rng=bits).value for _ in range(_REPLICATES)]
        errors = (np.array(found) - truth.value) * (few.schema.rows / self.schema.rows)
        std, half = spread(errors, confidence)
        noise, assumes = f"simulated {_REPLICATES} times", of_rows(self.schema, MADE_UP_ROWS)
        return Preview(truth.names, std, half, confidence, self.guarantee(), noise, assumes)


# --- regressions ---------------------------------------------------------------------------------


def read_classes(model: Any, confidence: float) -> Answer:
    """Shares of the classes, and what is known of the columns within each."""
    target = list(model.schema_)[-1]
    names: list[str] = [f"P({target}={label})" for label in model.classes_]
    values: list[float] = list(model.class_prior_)
    numbers = model.mechanism_.statistic.layout.numbers
    for i, label in enumerate(model.classes_):
        given = f"| {target}={label}"
        for j, column in enumerate(numbers):
            names += [f"mean of {column} {given}", f"std of {column} {given}"]
            values += [model.theta_[i, j], math.sqrt(model.var_[i, j])]
        for column, table in model.level_prob_.items():
            levels = model.schema_[column].levels
            names += [f"P({column}={level} {given})" for level in levels]
            values += list(table[i])
    value = np.array(values, dtype=np.float64)
    return Answer(
        names=tuple(names),
        value=value,
        interval=np.full((len(value), 2), np.nan),
        confidence=confidence,
        release=model.release_,
        about="computed from noisy counts and sums; intervals are not known",
        unknown=tuple(names),
    )


def read_density(model: Any, confidence: float) -> Answer:
    """Consistent counts of the cells; the intervals are those of the noise, at this level."""
    from tightdp.estimators.density import public_cells

    release = model.release_
    cells = public_cells(model.schema_, model.bins, model.epsilon, model.smoothing)
    noise = AdditiveMechanism(cells, noise="hull", epsilon=model.epsilon)
    half = noise.preview(confidence).half_width
    return Answer(
        names=release.names,
        value=model.counts_.ravel(),
        interval=np.maximum(np.column_stack([release.value - half, release.value + half]), 0.0),
        confidence=confidence,
        release=release,
        about="counts are made consistent; intervals cover those without noise",
    )


def foresee_density(work: ModelWork, confidence: float) -> Preview:
    """The noise of the counts, before they are made consistent."""
    from tightdp.estimators.density import public_cells

    model = work.model()
    cells = public_cells(work.schema, model.bins, work.epsilon, model.smoothing)
    return AdditiveMechanism(cells, noise="hull", epsilon=work.epsilon).preview(confidence)


def read_planes(model: Any, confidence: float) -> Answer:
    """The coefficients of a regression quantile."""
    return replace(Answer.of(model.release_), about=NO_INTERVAL)


def read_model(model: Any, confidence: float = 0.95) -> Answer:
    """What a person wants to know of a fitted model, with intervals where there are any."""
    if hasattr(getattr(model, "mechanism_", None), "information"):
        return read_logistic(model, confidence)
    if hasattr(model, "coef_names_"):
        return read_linear(model, confidence)
    if hasattr(model, "theta_"):
        return read_classes(model, confidence)
    if hasattr(model, "edges_"):
        return read_density(model, confidence)
    return Answer.of(model.release_)


_COVERED = (
    "intervals are for the population's coefficients, whatever the errors are, and count noise and "
    "sampling error"
)


def read_linear(model: Any, confidence: float) -> Answer:
    """Intercept and slopes, with intervals for those of the population."""
    interval = model.conf_int(1 - confidence, simultaneous=True, intercept=True)
    names, value = ("intercept", *model.coef_names_), np.append(model.intercept_, model.coef_)
    first = 0 if model.fit_intercept else 1
    said = pulled(value[first:], interval[first:])
    return Answer(
        names=names[first:],
        value=value[first:],
        interval=interval[first:],
        confidence=confidence,
        release=model.release_,
        about="; ".join(filter(None, [_COVERED, said])),
    )


def foresee_linear(work: ModelWork, confidence: float) -> Preview:
    """Noise on the coefficients, for features that fill their bounds evenly, not correlated."""
    from tightdp.estimators.linear import ROWS

    model, target = work.model(), work.target
    assert target is not None
    found = model.preview("", target)  # a path: nothing but names and the schema are looked at
    std, names = found.std, found.names
    if model.fit_intercept:
        std, names = np.append(found.intercept_std, std), ("intercept", *names)
    # a coefficient sums many noisy moments: nearly normal; Bonferroni makes it simultaneous
    half = _reach(confidence, len(std)) * std
    assumes = f"{ROWS}; shrinkage is not counted"
    return Preview(names, std, half, confidence, found.guarantee, found.noise, assumes)


def _reach(confidence: float, entries: int) -> float:
    from scipy.special import ndtri

    return float(ndtri(1 - (1 - confidence) / (2 * entries)))


def read_logistic(model: Any, confidence: float) -> Answer:
    """Log odds per unit of every feature, and the intercept."""
    release, width = model.release_, len(model.mechanism_.names)
    names, value = release.names[:width], release.value[:width]
    interval, lacking = model.known_intervals(1 - confidence, simultaneous=True)
    if interval is None:
        return Answer(
            names=names,
            value=value,
            interval=np.full((width, 2), np.nan),
            confidence=confidence,
            release=release,
            about=f"no intervals: {lacking[:1].lower()}{lacking[1:].rstrip('.')}",
            unknown=names,
        )
    return Answer(
        names=names,
        value=value,
        interval=np.roll(interval, -1, axis=0)[:width],
        confidence=confidence,
        release=release,
        about="intervals are for the population's coefficients, if the log odds are linear, and "
        "count noise and sampling error",
    )


def foresee_logistic(work: ModelWork, confidence: float) -> Preview:
    """The preview of the mechanism behind the model."""
    from tightdp.mechanisms.objective import ObjectivePerturbation

    given = dict(work.options)
    mechanism = ObjectivePerturbation(
        work.schema,
        [name for name in work.schema if name != work.target],
        work.target,
        epsilon=work.epsilon,
        norm=given.get("noise", "linf"),
        ridge=float(given.get("ridge", 0.0)),
        l1=float(given.get("l1", 0.0)),
        fit_intercept=given.get("fit_intercept", True),
        information_share=float(given.get("interval_share", 0.0)),
    )
    return mechanism.preview(confidence)
