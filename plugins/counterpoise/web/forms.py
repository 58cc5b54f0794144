"""Forms that only our own pages can send: a token in each, checked before anything is done.

    page(request, "pause.html", form_token=form_token(viewer))
    @router.post("/runs/{run_id}/pause", dependencies=[Depends(check_form)])

Airflow's login is a cookie, which a browser adds to any form that is sent to it. The token is
signed with Airflow's own secret (`[api] secret_key`), names the account, and holds for some hours;
source: OWASP's CSRF prevention cheat sheet, "signed double-submit" bound to the account.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final

from airflow.configuration import conf
from fastapi import Depends, Form, Request
from itsdangerous import BadSignature, URLSafeTimedSerializer

from counterpoise.errors import InputError, RefusedError
from counterpoise.queries import Viewer
from counterpoise.web.viewers import CurrentViewer

_SALT: Final = "counterpoise form"
TOKEN_HEADER: Final = "X-Counterpoise-Token"
_MAX_AGE_SECONDS: Final = 8 * 3600


def form_token(viewer: Viewer) -> str:
    """Return the value of the hidden field `form_token`."""
    return _signer().dumps(viewer.user_name)


def token_of_form(request: Request, form_token: Annotated[str, Form()] = "") -> str:
    """Return the token that came as a field of the form, or as a header."""
    return form_token or _token_in_header(request)


FormToken = Annotated[str, Depends(token_of_form)]


def check_form(viewer: CurrentViewer, form_token: FormToken) -> None:
    """Raise RefusedError for a form that no page of ours gave to this account lately."""
    _check_token(viewer, form_token)


def check_program(request: Request, viewer: CurrentViewer) -> None:
    """Do what `check_form` does for a body of JSON, with the token in the header. Who sends a token
    of Airflow needs none: no browser adds that by itself, and Airflow ignores its cookie then.
    """
    if not request.headers.get("authorization", "").casefold().startswith("bearer "):
        _check_token(viewer, _token_in_header(request))


def _token_in_header(request: Request) -> str:
    return str(request.headers.get(TOKEN_HEADER, ""))


def _check_token(viewer: Viewer, token: str) -> None:
    try:
        user_name = _signer().loads(token, max_age=_MAX_AGE_SECONDS)
    except (BadSignature, UnicodeError):
        user_name = None
    if user_name != viewer.user_name:
        raise RefusedError(
            "this form is too old, or it came from elsewhere; nothing was changed: open the page "
            f"again and send it from there. A program sends `Authorization: Bearer`, or the page's "
            f"token as `{TOKEN_HEADER}`"
        )


async def json_body(request: Request) -> Mapping[str, Any]:
    """Return the body of a request. Raises InputError where it is no JSON object."""
    try:
        body: object = json.loads(await request.body())
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise InputError('the body has to be a JSON object, like {"decision": "approve"}')
    return body


JsonBody = Annotated[Mapping[str, Any], Depends(json_body)]


def time_of_form(form_token: str) -> datetime:
    """Return when a page of ours gave out a token that `check_form` has accepted."""
    at: datetime = _signer().loads(form_token, return_timestamp=True)[1]
    return at


def _signer() -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(conf.get("api", "secret_key"), salt=_SALT)
