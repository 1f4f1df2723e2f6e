"""What an endpoint's complaint means, whatever form it has, and the error it becomes."""

from __future__ import annotations

import re

from ..errors import AmemError, ConfigurationError, ModelReplyError, ModelUnavailableError

_LONGEST_DETAIL = 300

_TOO_LONG = re.compile(
    r"context[ _](?:length|size|window)|maximum (?:model|input|prompt) length"
    r"|(?:prompt|input).{0,80}too (?:long|large)",
    re.IGNORECASE,
)
_FILTERED = re.compile(r"content_filter|content management policy", re.IGNORECASE)
_NO_MODEL = re.compile(
    r"model_not_found|\bmodel\b.{0,160}(?:not found|does not exist)|no models? loaded|failed to load model",
    re.IGNORECASE,
)
_FORM = re.compile(
    r"response_format|json_schema|json_object|grammar|\btools?\b|tool_choice|system (?:role|message)"
    r"|roles must alternate",
    re.IGNORECASE,
)


def said(error: Exception) -> str:
    """Return all that an endpoint said with an error, whatever the form of its answer.

    The SDK leaves out of its own text what does not look like an error of OpenAI's.
    """
    body = getattr(error, "body", None)
    message = body.get("message") if isinstance(body, dict) else body
    if not body or (message and str(message) in str(error)):
        return str(error)
    return f"{error} - {body}"


def is_too_long(complaint: str) -> bool:
    """Return whether a complaint says that the text is longer than the model reads."""
    return _TOO_LONG.search(complaint) is not None


def is_about_form(error: Exception) -> bool:
    """Return whether it may help to put the same request in another form.

    A failure of the server counts only if it names the form: some fail so at what they do not know.
    """
    status, complaint = getattr(error, "status_code", None) or 0, _in_full(error)
    if is_too_long(complaint) or _FILTERED.search(complaint) or _NO_MODEL.search(complaint):
        return False
    return status in {400, 422} or (status >= 500 and _FORM.search(complaint) is not None)  # noqa: PLR2004


def translated(error: Exception, where: str, key: str | None) -> AmemError:
    """Return the error of this package for one of the SDK; `key` does not appear in it."""
    status = getattr(error, "status_code", None)
    if status in {401, 403}:
        # The message of the endpoint can hold parts of the key.
        return ConfigurationError(f"{where} refused access (HTTP {status}); check the API key")
    detail = shortened(said(error), key) or type(error).__name__
    if status in {404, 405} or (status == 400 and _NO_MODEL.search(_in_full(error))):  # noqa: PLR2004
        return ConfigurationError(
            f"{where} was not found ({detail}); check the name of the model and base_url"
        )
    if status in {400, 413, 422} or is_about_form(error):
        return ModelReplyError(f"{where} refused the request ({detail})")
    return ModelUnavailableError(f"{where} did not answer ({detail}); try again later")


def _in_full(error: Exception) -> str:
    """Return the text and the whole body, codes and all."""
    return f"{error} {getattr(error, 'body', None) or ''}"


def shortened(text: str, key: str | None) -> str:
    """Return a text on one line, cut, and without the key."""
    line = " ".join(text.split())
    return (line.replace(key, "…") if key else line)[:_LONGEST_DETAIL]
