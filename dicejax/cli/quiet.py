"""Silence library logs about an error that the command reports itself."""

from __future__ import annotations

import logging
import sys
from typing import Any

from absl import logging as absl_logging


def quieten() -> None:
    """Silence the loggers of orbax, asyncio and tensorstore.

    When a checkpoint cannot be written, orbax logs a traceback for each of its threads,
    asyncio one for each array after the first, and tensorstore one for each whose event
    loop is gone: hundreds of lines around the one that says what to do.
    """
    absl_logging.set_verbosity(absl_logging.FATAL)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    sys.unraisablehook = _unless_loop_is_closed


def _unless_loop_is_closed(what: Any) -> None:
    """Show errors that nobody can catch, except those of tensorstore's callbacks."""
    if str(what.exc_value) != "Event loop is closed":
        sys.__unraisablehook__(what)
