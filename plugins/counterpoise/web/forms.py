"""Forms that only our own pages can send: a token in each, checked before anything is done.

    page(request, "pause.html", form_token=form_token(viewer))
    @router.post("/runs/{run_id}/pause", dependencies=[Depends(check_form)])

Airflow's login is a cookie, which a browser adds to any form that is sent to it. The token is
signed with Airflow's own secret (`[api] secret_key`), names the account, and holds for some hours;
source: OWASP's CSRF prevention cheat sheet, "signed double-submit" bound to the account.
"""

from datetime import datetime
from typing import Annotated, Final

from airflow.configuration import conf
from fastapi import Form
from itsdangerous import BadSignature, URLSafeTimedSerializer

from counterpoise.errors import RefusedError
from counterpoise.queries import Viewer
from counterpoise.web.viewers import CurrentViewer

_SALT: Final = "counterpoise form"
_SENT: Final = "counterpoise answer sent"
_SENT_SECONDS: Final = 300
_MAX_AGE_SECONDS: Final = 8 * 3600


def form_token(viewer: Viewer) -> str:
    """Return the value of the hidden field `form_token`."""
    return _signer().dumps(viewer.user_id)


def check_form(viewer: CurrentViewer, form_token: Annotated[str, Form()] = "") -> None:
    """Raise RefusedError for a form that no page of ours gave to this account lately."""
    try:
        user_id = _signer().loads(form_token, max_age=_MAX_AGE_SECONDS)
    except (BadSignature, UnicodeError):
        user_id = None
    if user_id != viewer.user_id:
        raise RefusedError(
            "this form is too old, or it came from elsewhere; nothing was changed: open the page "
            "again and send it from there"
        )


def time_of_form(form_token: str) -> datetime:
    """Return when a page of ours gave out a token that `check_form` has accepted."""
    at: datetime = _signer().loads(form_token, return_timestamp=True)[1]
    return at


def sent_mark(viewer: Viewer, run_id: str, answer_count: int) -> str:
    """Return what an address says after an answer was sent, and how many were recorded before:
    nobody else can write it.
    """
    return _signer(_SENT).dumps([viewer.user_id, run_id, answer_count])


def is_not_yet_recorded(viewer: Viewer, run_id: str, mark: str, answer_count: int) -> bool:
    """Return whether an address says that this account has lately sent an answer about a run, and
    none was recorded since.
    """
    try:
        marked: object = _signer(_SENT).loads(mark, max_age=_SENT_SECONDS)
    except BadSignature:
        return False
    return marked == [viewer.user_id, run_id, answer_count]


def _signer(salt: str = _SALT) -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(conf.get("api", "secret_key"), salt=salt)
