"""How every page is drawn and answered: one frame, one set of security headers, neutral failures.

    return page(request, "fleet.html", fleet=fleet)
    return error_page(request, 403, MAY_NOT_VIEW)

A failure shows one neutral sentence and a reference; the log has the reason under the same
reference.
"""

import hashlib
import secrets
import uuid
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

from fastapi import Request, Response
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment
from msgspec import Struct
from starlette.exceptions import HTTPException as StarletteHTTPException

from counterpoise.errors import (
    ConfigurationError,
    InputError,
    MayNotError,
    RefusedError,
    UnknownNameError,
)
from counterpoise.model.safe_text import for_json, safe_logger
from counterpoise.reporting.html import TEMPLATES, environment
from counterpoise.services.viewers import MayNotViewError, UnknownClusterError, Viewer
from counterpoise.views import as_document

FORMAT: Final = "counterpoise-api/1"  # of the JSON API; docs/api.md describes it
_LOGGER = safe_logger(__name__)

# The pages are shown on the origin of Airflow's login, whose cookie scripts could read: one script
# runs, ours, by a number that no text of a cluster can know, and it cannot make markup out of text.
# Without "allow-same-origin" a link inside Airflow's own frame would lose the login.
_ANY_POLICY: Final = "default-src 'none'; img-src data:; base-uri 'none'; frame-ancestors 'self'"
_SANDBOX: Final = (
    "sandbox allow-same-origin allow-popups "
    "allow-popups-to-escape-sandbox allow-top-navigation-by-user-activation"
)
_PAGE_POLICY: Final = (
    f"{_ANY_POLICY}; script-src 'nonce-{{nonce}}'; require-trusted-types-for 'script'; "
    "style-src 'self'; connect-src 'self'; form-action 'self'; "
    f"{_SANDBOX} allow-scripts allow-forms"
)
_NO_PAGE_POLICY: Final = f"{_ANY_POLICY}; form-action 'none'; {_SANDBOX}"
# For what lies in the store: pages with their style, which their own policy names by its hash, and
# Data Docs, which have styles everywhere.
STORED_POLICY: Final = f"{_ANY_POLICY}; style-src 'unsafe-inline'; form-action 'none'; {_SANDBOX}"
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_SENTENCES: Final = {
    400: "This form cannot be read, and nothing was changed.",
    404: "There is nothing of this name. It may have been renamed.",
    405: "Nothing can be sent to this address, and nothing was changed.",
}
_FORMS_ALONE: Final = (
    "This address takes forms alone, and nothing was changed: open the page that has the form."
)
_LOGGED_OUT: Final = (
    "You are not logged in any more, and nothing was changed: log in to Airflow, come back to the "
    "page before this one, and send it again."
)
_FIRST_PAGES: Final = ("/fleet", "/waiting")
_NOT_SHOWN: Final = "This page cannot be shown now."
_NOT_KNOWN: Final = (
    "It is not known whether this was recorded: open the page again, which shows it."
)
_NO_CONFIGURATION: Final = (
    "The configuration of Counterpoise (clusters.yaml, or a connection) cannot be read."
)
_OF_A_QUERY: Final = "%=&+/?:@!$'()*,;"  # stands there as it is
URL_PREFIX: Final = "/counterpoise"  # below Airflow's own address


def page(request: Request, template: str, *, status: int = 200, **values: object) -> HTMLResponse:
    """Return a page drawn from `templates/`.

    Every template has `base`, the path of our pages, and `airflow`, that of Airflow's own, both
    without a slash at the end: Airflow may stand below a prefix of its own; and `person`, the login
    name of whoever looks.
    """
    nonce = secrets.token_urlsafe(16)
    viewer: Viewer | None = getattr(request.state, "viewer", None)
    text = (
        _environment()
        .get_template(template)
        .render(
            base=base_of(request),
            airflow=airflow_of(request),
            assets=assets_digest(),
            nonce=nonce,
            person=viewer.user_name if viewer else "",
            **values,
        )
    )
    policy = {"Content-Security-Policy": _PAGE_POLICY.format(nonce=nonce)}
    return HTMLResponse(text, status_code=status, headers=policy)


def base_of(request: Request) -> str:
    """Return the path of our pages, without a slash at the end."""
    return str(request.scope.get("root_path", ""))


def airflow_of(request: Request) -> str:
    """Return the path of Airflow's own pages, without a slash at the end."""
    return base_of(request).removesuffix(URL_PREFIX)


ASSETS: Final[Mapping[str, tuple[Path, str]]] = {  # below /static/
    "home.js": (Path(__file__).parent / "static" / "home.js", "text/javascript"),
    "counterpoise.js": (Path(__file__).parent / "static" / "counterpoise.js", "text/javascript"),
    "style.css": (TEMPLATES / "style.css", "text/css"),
}


@cache
def assets_digest() -> str:
    """Return what changes with our script and our style, so that browsers may keep them."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path, _ in ASSETS.values()))
    return digest.hexdigest()[:12]


@cache
def _environment() -> Environment:
    return environment(Path(__file__).parent / "templates")


def compile_templates() -> None:
    """Compile all templates; each would be compiled by the first page that is drawn with it."""
    for name in _environment().list_templates():
        _environment().get_template(name)


def error_page(request: Request, status: int, sentence: str) -> Response:
    """Return a page, or JSON, that says in one sentence what cannot be shown or done, and why."""
    if is_api(request):
        return json_response({"detail": sentence}, status=status)
    return page(request, "error.html", status=status, sentence=sentence)


def json_response(document: Mapping[str, object], *, status: int = 200) -> Response:
    """Return JSON whose text steers no terminal."""
    text = for_json(document) + "\n"
    return Response(text, status_code=status, media_type="application/json")


def answer(status: int = 200, /, view: Struct | None = None, **values: object) -> Response:
    """Return what the JSON API answers: the fields of a view, and further values."""
    fields = as_document(view) if view else {}
    return json_response({"format": FORMAT, **fields, **as_document(values)}, status=status)


def is_api(request: Request) -> bool:
    return _path_of(request).startswith("/api/")


def _path_of(request: Request) -> str:
    """Return the path below that of our pages."""
    return str(request.scope["path"]).removeprefix(base_of(request))


def _unknown_cluster(request: Request, known: tuple[str, ...]) -> Response:
    if is_api(request):
        sentence = "There is no such cluster. You may view those in `known`."
        return json_response({"detail": sentence, "known": known}, status=404)
    return page(request, "unknown_cluster.html", status=404, known=known)


def status_of(error: InputError | RefusedError) -> int:
    """Return the status of a form that comes back: 422 for what was typed, 403 for somebody who may
    not, 409 for what may not be now.
    """
    if isinstance(error, InputError):
        return 422
    return 403 if isinstance(error, MayNotError) else 409


async def safe_response(
    request: Request, call_next: Callable[[Request], Awaitable[Response]]
) -> Response:
    """Return the response with the security headers; a failure shows a reference, not its reason.

    What a person asked for by a form and may not have is told in the words of the refusal.
    """
    is_form = request.method == "POST"
    try:
        response = _not_found(request) if _has_nul(request) else await call_next(request)
    except UnknownClusterError as error:
        response = _unknown_cluster(request, error.known)
    except MayNotViewError as error:
        response = error_page(request, 403, str(error))
    except RefusedError as error:
        response = error_page(request, 403, str(error)) if is_form else _unknown(request, error)
    except UnknownNameError:
        response = _not_found(request)
    except ConfigurationError as error:
        response = _unknown(request, error, why=_NO_CONFIGURATION)
        response = _to_setup(request) or response
    except InputError as error:
        response = error_page(request, 422, str(error)) if is_form else _unknown(request, error)
        response = _to_setup(request) or response
    except Exception as error:  # noqa: BLE001 - its text may hold what a viewer must not see
        response = _unknown(request, error)
    response.headers.update(_HEADERS)
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers.setdefault("Content-Security-Policy", _NO_PAGE_POLICY)
    if seconds := response.headers.get("Refresh"):
        # Without an address, one that ends in #answer or the like would be scrolled to and not
        # loaded again.
        response.headers["Refresh"] = f"{seconds}; url={_address_of(request)}"
    return response


def _to_setup(request: Request) -> Response | None:
    """Return the way to the checklist, for whoever opens a page that has no settings to show."""
    is_page = request.method == "GET" and _path_of(request) in _FIRST_PAGES
    return RedirectResponse(f"{base_of(request)}/setup", status_code=303) if is_page else None


async def unroutable_response(request: Request, error: Exception) -> Response:
    """Return a page about what FastAPI itself refuses: no page or form of ours is like that.

    What Airflow's login says stays as it is; a person who only has to log in is asked to, and comes
    back.
    """
    if isinstance(error, RequestValidationError):
        return error_page(request, 422, "This form cannot be read, and nothing was changed.")
    assert isinstance(error, StarletteHTTPException)
    if error.status_code == 401 and _is_from_a_browser(request):
        if request.method == "GET":
            return RedirectResponse(_login_of(request), status_code=303)
        return error_page(request, 401, _LOGGED_OUT)
    sentence = _SENTENCES.get(error.status_code)
    if error.status_code == 405 and request.method == "GET":
        sentence = _FORMS_ALONE
    if error.status_code == 405 and is_api(request):
        allowed = (error.headers or {}).get("Allow", "GET")
        sentence = f"This address takes {allowed} alone, and nothing was changed."
    if sentence is None:
        return await http_exception_handler(request, error)
    response = error_page(request, error.status_code, sentence)
    response.headers.update(error.headers or {})
    return response


def _is_from_a_browser(request: Request) -> bool:
    """Return whether somebody opens a page or sends its form, and no program does."""
    return not is_api(request) and "text/html" in request.headers.get("accept", "")


def _login_of(request: Request) -> str:
    """Return where Airflow asks for a login, and from where it leads to this very page."""
    back = urlencode({"next": _address_of(request)})
    return f"{airflow_of(request)}/api/v2/auth/login?{back}"


def _address_of(request: Request) -> str:
    """Return the path of a page with its query, and nothing after a #."""
    query = f"?{quote(request.url.query, safe=_OF_A_QUERY)}" if request.url.query else ""
    return f"{base_of(request)}{quote(_path_of(request))}{query}"


def _has_nul(request: Request) -> bool:
    """Return whether an address has what Postgres takes in no text, and so no name has."""
    return "\0" in request.url.path or "%00" in request.url.path + request.url.query


def _not_found(request: Request) -> Response:
    return error_page(request, 404, _SENTENCES[404])


def _unknown(request: Request, error: Exception, *, why: str = "") -> Response:
    """Return the page of a failure; without `why`, nobody knows more than that it failed."""
    reference = uuid.uuid4().hex[:12]
    _LOGGER.error("page error %s: %s: %s", reference, type(error).__name__, error)
    what = _NOT_KNOWN if request.method == "POST" else _NOT_SHOWN
    where = f"The api-server's log has the reason under the reference {reference}."
    if request.method == "GET" and not is_api(request):
        where += " Setup, above, says what is missing, or cannot be read."
    return error_page(request, 503, " ".join(filter(None, (why, what, where))))
