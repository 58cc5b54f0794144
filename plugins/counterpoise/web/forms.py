"""What people send by forms of our pages, and programs as JSON: one route for both.

    form_page(request, viewer, "pause.html", reason=reason, problem=problem)
    @act(router, "/runs/{run_id}/pause")        # and /api/runs/{run_id}/pause, for programs
    def pause(run_id: str, viewer: CurrentViewer, sent: SentValues) -> Response:
        reason = sent.texts("reason")["reason"]

Airflow's login is a cookie, which a browser adds to any form that is sent to it. So each form has a
token, checked before anything is done. It is signed with Airflow's own secret (`[api] secret_key`),
names the account, and holds for some hours; source: OWASP's CSRF prevention cheat sheet, "signed
double-submit" bound to the account. Who sends a token of Airflow needs none: no browser adds that
by itself, and Airflow ignores its cookie then.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, TypeVar

from airflow.configuration import conf
from fastapi import APIRouter, Depends, Request, Response
from itsdangerous import BadSignature, URLSafeTimedSerializer

from counterpoise.errors import InputError, RefusedError
from counterpoise.services.viewers import Viewer
from counterpoise.web.responses import error_page, is_api, page
from counterpoise.web.viewers import CurrentViewer, check_may_change

_SALT: Final = "counterpoise form"
TOKEN_FIELD: Final = "form_token"
TOKEN_HEADER: Final = "X-Counterpoise-Token"
_MAX_AGE_SECONDS: Final = 8 * 3600
_Route = TypeVar("_Route", bound=Callable[..., Response])


@dataclass(frozen=True, slots=True)
class Sent:
    """The fields of a form, or the values of a JSON object, which has no others than were asked
    for.
    """

    values: Mapping[str, Any]
    is_json: bool

    def texts(self, *names: str) -> dict[str, str]:
        """Return the texts of these names; "" where there is none. Raises InputError."""
        if self.is_json and (unknown := sorted(set(self.values) - set(names))):
            raise InputError(f"{unknown[0]}: there is no such key; there are {', '.join(names)}")
        return {name: self.text(name) for name in names}

    def text(self, name: str) -> str:
        """Return one text; "" where there is none. Raises InputError."""
        value = self.values.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise InputError(f"{name}: has to be a text")
        return value


async def sent_values(request: Request) -> Sent:
    """Return the values that came. Raises InputError where a program sent no JSON object."""
    if not is_api(request):
        async with request.form() as form:
            return Sent(dict(form), is_json=False)
    try:
        body: object = json.loads(await request.body(), object_pairs_hook=_with_each_key_once)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise InputError('the body has to be a JSON object, like {"reason": "month end"}')
    return Sent(body, is_json=True)


def _with_each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object. Raises InputError for a key that it has twice: nobody knows which of
    the two values was meant.
    """
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InputError(f"{twice}: this key is there twice; send it once")
    return values


SentValues = Annotated[Sent, Depends(sent_values)]


def token_sent(request: Request, sent: SentValues) -> str | None:
    """Return the token that came as a field of the form, or as a header; None where none is asked
    for.
    """
    authorization = request.headers.get("authorization", "").casefold()
    if sent.is_json and authorization.startswith("bearer "):
        return None
    field = None if sent.is_json else sent.values.get(TOKEN_FIELD)
    return str(field or request.headers.get(TOKEN_HEADER, ""))


FormToken = Annotated[str | None, Depends(token_sent)]


def check_form(viewer: CurrentViewer, token: FormToken) -> None:
    """Raise RefusedError for a form that no page of ours gave to this account lately."""
    if token is None:
        return
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


def act(router: APIRouter, path: str) -> Callable[[_Route], _Route]:
    """Return a decorator for what takes the form of a page, and the same of a program below /api:
    of an account that Airflow lets change runs.
    """

    def add(route: _Route) -> _Route:
        for prefix in ("", "/api"):
            router.post(
                f"{prefix}{path}", dependencies=[Depends(check_form), Depends(check_may_change)]
            )(route)
        return route

    return add


def form_page(
    request: Request,
    viewer: Viewer,
    template: str,
    *,
    status: int = 200,
    problem: str = "",
    **values: object,
) -> Response:
    """Return the page of a form; a program is told the problem alone."""
    if is_api(request):
        return error_page(request, status, problem)
    token = form_token(viewer)
    return page(request, template, status=status, problem=problem, form_token=token, **values)


def form_token(viewer: Viewer) -> str:
    """Return the value of the hidden field `form_token`."""
    return _signer().dumps(viewer.user_name)


def time_of_form(form_token: str) -> datetime:
    """Return when a page of ours gave out a token that `check_form` has accepted."""
    at: datetime = _signer().loads(form_token, return_timestamp=True)[1]
    return at


def _signer() -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(conf.get("api", "secret_key"), salt=_SALT)
