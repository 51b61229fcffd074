"""A user's matplotlib style sheet, checked line by line before any job runs.

matplotlib itself leaves out what it does not understand, and fails late at what it cannot do.
"""

from __future__ import annotations

import re
import shutil
import warnings
from pathlib import Path

_UP_TO_COMMENT = re.compile(r'(?:[^#"]|"[^"]*")*')
_FOR_TEX = ("latex", "dvipng")
# What matplotlib leaves out of style sheets, since it says nothing of looks.
_NO_STYLE = ("backend", "backend_fallback", "date.epoch", "docstring.hardcopy", "interactive")
_NO_STYLE += ("figure.max_open_warning", "figure.raise_window", "savefig.directory", "timezone")
_NO_STYLE += ("tk.window_focus", "toolbar", "webagg.address", "webagg.open_in_browser")
_NO_STYLE += ("webagg.port", "webagg.port_retries")


def problem(sheet: str) -> str | None:
    """What is wrong with the file ``sheet``, first by line; None where it can be used."""
    try:
        lines = Path(sheet).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return f"{sheet} is not UTF-8 text; give the path of an .mplstyle file"
    except OSError as error:
        return f"{sheet} cannot be read ({error.strerror}); give the path of an .mplstyle file"
    except ValueError:
        return f"{sheet!r} is no path; give that of an .mplstyle file"
    for number, line in enumerate(lines, 1):
        text = _UP_TO_COMMENT.match(line)[0].strip()
        if text and (why := _problem_of_line(text)):
            return f"{sheet}, line {number}: {why}"
    return None


def _problem_of_line(text: str) -> str | None:
    import matplotlib

    key, colon, value = (part.strip() for part in text.partition(":"))
    if not colon:
        return f"{_shown(text)} is no 'key: value'; mend it"
    if key not in matplotlib.rcParams:
        return f"{_shown(key)} is no key of matplotlib; see its style sheets, or take the line out"
    if key in _NO_STYLE:
        return f"{key} is no matter of style; take the line out"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            parsed = matplotlib.RcParams({key: value.removeprefix('"').removesuffix('"')})[key]
    except (ValueError, TypeError, KeyError, Warning) as error:
        return f"{key}: {_shown(' '.join(str(error).split()), 120)}; mend it, or take the line out"
    absent = [program for program in _FOR_TEX if shutil.which(program) is None]
    if key == "text.usetex" and parsed and absent:
        return f"{key}: there is no {' and no '.join(absent)} here; take the line out"
    return None


def _shown(text: str, width: int = 40) -> str:
    return repr(text if len(text) <= width else f"{text[: width - 4]} ...")
