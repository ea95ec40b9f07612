"""How a flow run ends in Prefect: a refusal as ``Refused``, and a failure with one message and no traceback."""

from __future__ import annotations

import functools
import inspect
import logging
import os
from collections.abc import Callable
from typing import Any, TypeVar, cast, get_type_hints

from prefect.context import FlowRunContext
from prefect.exceptions import PrefectException
from prefect.logging import get_run_logger

from pipelines.errors import PrivacyGateError, message_of
from pipelines.printable import first_sentence
from tasks.base import failed_state

_F = TypeVar("_F", bound=Callable[..., Any])
_LOGGERS = ("prefect.engine", "prefect.flow_runs", "prefect.task_runs")


class OneMessage(logging.Filter):
    """Takes tracebacks out of Prefect's log, because they may quote private text, and the state has the message."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns False for a record that only announces a traceback."""
        if record.exc_info and os.environ.get("RETICENT_DEBUG") != "1":
            record.exc_info = record.exc_text = None
            return "unexpected exception" not in record.getMessage()
        return True


def one_message(function: _F) -> _F:
    """Lets a flow end in a state with one message if it raises an error. The caller of the flow still gets the error.

    Prefect itself would write the error into the log twice, with all frames, and put its own words before the message.
    A flow that another flow calls by ``.fn`` raises its errors.
    """

    @functools.wraps(function)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        context = FlowRunContext.get()
        if context is None or context.flow is None or context.flow.fn is not wrapped:
            return function(*arguments, **options)
        for name in _LOGGERS:
            if not any(isinstance(one, OneMessage) for one in logging.getLogger(name).filters):
                logging.getLogger(name).addFilter(OneMessage())
        try:
            return function(*arguments, **options)
        except PrefectException:
            raise
        except Exception as error:
            text = message_of(error)
            if isinstance(error, PrivacyGateError) and (advice := text[len(first_sentence(text)) :].strip(" .")):
                get_run_logger().info("What to do: %s", advice)
            return failed_state(error)

    # Prefect checks parameters against types, and would look for their names in this module.
    wrapped.__annotations__ = get_type_hints(function)
    wrapped.__signature__ = inspect.signature(function, eval_str=True)  # type: ignore[attr-defined]
    return cast(_F, wrapped)
