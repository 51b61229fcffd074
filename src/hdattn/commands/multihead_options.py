"""Options that describe a multi-head problem, and what they describe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hdattn.commands.output import warn
from hdattn.commands.parsing import (
    flag,
    given,
    missing,
    option,
    refuse,
    together,
    unwanted,
)
from hdattn.commands.values import (
    ANY_NUMBER,
    COUNT,
    HEADS,
    KEY,
    MATRIX,
    POSITIVE,
    TIMES,
    TOKENS,
    VECTOR,
    WHOLE,
    Number,
)
from hdattn.errors import UserError

if TYPE_CHECKING:
    from hdattn.multihead.priors import Prior

_PRIOR_OPTIONS = ("mean", "std", "support", "weights")
_LONGEST = 1_000_000  # of a flow: its learning-rate scale and its last time
_MOST_FLIPS = 12  # 2^12 sign patterns are enumerated at each point


class Registered(click.ParamType):
    """Name of something the library registers, among them extensions."""

    name = "name"

    def __init__(self, what: str):
        """Names of an ``activation`` or of a ``prior``."""
        self.what = what

    def convert(self, value, param, ctx):
        """The name, unchanged."""
        from hdattn import extensions
        from hdattn.multihead import activations, priors

        registry = {"activation": activations.ACTIVATIONS, "prior": priors.PRIORS}[self.what]
        if extensions.find("multihead", registry, value) is None:
            known = ", ".join(extensions.known("multihead", registry))
            self.fail(f"{value!r} is unknown; choose one of {known}", param, ctx)
        return value


activation_option = option(
    "--activation",
    type=Registered("activation"),
    required=True,
    metavar="softmax|softmax1|bayes",
    help="How heads share attention; bayes is B-softmax. Or the name of an extension.",
)
prior_options = together(
    option("--tokens", type=TOKENS, default=5, help="Tokens L of a sequence."),
    option(
        "--prior",
        type=Registered("prior"),
        metavar="flip|gauss|discrete",
        help="Law of the spike amplitudes theta: mean + std times fair signs; normal; or on "
        "given points. Without it flip, or discrete where --support is given.",
    ),
    option("--mean", type=VECTOR, help="Mean of theta, a number per spike: 0.8,0."),
    option("--std", type=VECTOR, help="Spread of theta, a number per spike: 0,2."),
    option("--support", type=MATRIX, help="Points theta of a discrete prior, a row each."),
    option("--weights", type=VECTOR, help="Their probabilities, a number per point."),
    option(
        "--key",
        "prior_keys",
        type=KEY,
        multiple=True,
        metavar="NAME=VALUE",
        help="A key that an extension's prior has besides these; once for each.",
    ),
)
point_options = together(
    option("--m", type=MATRIX, required=True, help="Overlaps m_hf = k_h . k*_f, a row per head."),
    option("--b", type=VECTOR, help="Head biases b, a number per head; without it 0."),
    option("--c", type=ANY_NUMBER, help="Output scale c (softmax1); without it 1."),
)


def start_options(dim: int, gamma: float) -> Any:
    """Options of a trajectory: size, learning rate, start, times."""
    return together(
        option("--heads", type=HEADS, default=2, help="Number of heads H."),
        option("--dim", type=COUNT, default=dim, help="Dimension D of the tokens."),
        option(
            "--gamma",
            type=Number(low=0, high=_LONGEST) if gamma == 0 else POSITIVE,
            default=gamma,
            help="Learning-rate scale: eta = gamma B / D; 0 is gradient flow.",
        ),
        option("--init-m", type=MATRIX, help="Overlaps m at the start, a row per head."),
        option("--init-r", type=MATRIX, help="Products r at the start; without it r = m m^T."),
        option("--seed", type=WHOLE, default=0, help="Seed of what is random."),
        option(
            "--sigma",
            type=Number(low=0, high=1000),
            default=0.1,
            help="Random start: k_h ~ N(0, sigma^2 I / D).",
        ),
        option(
            "--tau",
            type=Number(above=0, high=_LONGEST) if gamma == 0 else POSITIVE,
            default=40.0,
            help="Last time, in gamma samples / D.",
        ),
        option("--points", type=TIMES, default=200, help="Number of times, 0 to tau."),
    )


def make_prior(values: dict[str, Any], *, enumerated: bool) -> Prior:
    """The prior that the options describe; ``enumerated`` where all sign patterns are used."""
    from hdattn.multihead.priors import get_prior
    from hdattn.multihead.priors import make_prior as make

    kind = values["prior"] or _kind_of_prior()
    if not values["prior"]:
        refuse(_mixed_prior())
    keys = get_prior(kind).keys
    own = [name for name in _PRIOR_OPTIONS if name in keys]
    others = [name for name in _PRIOR_OPTIONS if name not in keys]
    more = dict(values["prior_keys"])
    refuse(
        missing(own, f"--prior {kind} needs it")
        + unwanted(others, f"--prior {kind} has none")
        + _unlike(more, [key for key in keys if key not in own], kind)
    )
    prior = make({"kind": kind, **{key: values[key] for key in own}, **more})
    flips = sum(spread > 0 for spread in values["std"] or []) if kind == "flip" else 0
    if enumerated and flips > _MOST_FLIPS:
        raise UserError(
            f"--std: {flips} flipping directions have 2^{flips} sign patterns, too many to "
            f"enumerate; give at most {_MOST_FLIPS}"
        )
    return prior


def _unlike(found: dict[str, Any], wanted: list[str], kind: str) -> list[str]:
    """A problem for each --key that is missing, and for each that the prior has none of."""
    absent = [f"--key {k}=...: missing; --prior {kind} needs it" for k in wanted if k not in found]
    more = [f"--key {k}: --prior {kind} has none; leave it out" for k in found if k not in wanted]
    return absent + more


def _kind_of_prior() -> str:
    on_points = given("support", "weights") and not given("mean", "std")
    return "discrete" if on_points else "flip"


def _mixed_prior() -> list[str]:
    """A problem where options of two kinds of prior are given, and no --prior to choose by."""
    points, moments = (
        " and ".join(map(flag, given(*names)))
        for names in (("support", "weights"), ("mean", "std"))
    )
    if not (points and moments):
        return []
    return [
        f"{points}: not with {moments}: a prior is either --support and --weights, or --mean and "
        "--std; leave one pair out"
    ]


def head_count(values: dict[str, Any]) -> int:
    """Number of heads, from ``--init-m`` where it is given."""
    start = values["init_m"]
    if start is None:
        refuse(unwanted(["init_r"], "it needs --init-m"))
        return values["heads"]
    if given("heads") and values["heads"] != len(start):
        raise UserError(
            f"--init-m: it has {len(start)} rows, --heads says {values['heads']}; make them agree"
        )
    return len(start)


def matrix(name: str, rows: list[list[float]] | None, shape: tuple[int, int]) -> Any:
    """``rows`` as an array of this shape; ``UserError`` naming the option if they are not."""
    import numpy as np

    if rows is None:
        return None
    array = np.array(rows)
    if array.shape != shape:
        raise UserError(
            f"{flag(name)}: it is {array.shape[0]} x {array.shape[1]}; give {shape[0]} x {shape[1]}"
        )
    return array


def check_activation(values: dict[str, Any]) -> None:
    """Refuse ``--b`` and ``--c`` where the activation has none."""
    from hdattn.multihead.activations import get_activation

    name = values["activation"]
    activation = get_activation(name)
    absent = [key for key in ("b", "c") if not getattr(activation, f"has_{key}")]
    refuse(unwanted(absent, f"--activation {name} has none"))


def biases(values: list[float] | None, heads: int) -> Any:
    """Biases b [H], zero unless given."""
    import numpy as np

    if values is None:
        return np.zeros(heads)
    if len(values) != heads:
        raise UserError(f"--b: it has {len(values)} numbers, --m has {heads} rows; give one each")
    return np.array(values)


def say_if_sampled(activation: str) -> None:
    """Warn where losses of this activation come from Sobol points."""
    from hdattn.multihead.quadrature import has_quadrature

    if not has_quadrature(activation):
        warn(f"no quadrature for {activation}: losses are means over independent Sobol points")
