"""People in front of a real browser: Chromium, driven by playwright, on our pages.

    with chromium() as browser:
        alice = Visitor.at(browser, "http://127.0.0.1:8000", pictures)
        bob = Visitor.log_in(browser, airflow, "bob")   # where Airflow asks them to
        alice.follow("Read the plan and decide")   # a click, which is counted
        alice.check_page("fleet")                  # accessibility, 400 px, dark

    python -m tests.support.browser                # fetches a Chromium where there is none

Chromium is one of the machine that starts, or else one that playwright fetches. Whatever a page of
ours writes to the console as an error, a dialog, and an exception of a script are problems, which
`check_no_problem` tells.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from dev import local_processes
from dev.local_airflow import LocalAirflow
from dev.local_processes import ChildFailedError

# The first one that starts: the headless shell takes less of the processor than one with windows.
PROGRAMS: Final = ("chromium-headless-shell", "chromium", "google-chrome", "chromium-browser")
MISSING: Final = (
    "no Chromium that starts was found (apt-get install chromium-headless-shell, or chromium)"
)
START_SECONDS: Final = 60.0
FETCH_SECONDS: Final = 60.0  # that many, too, without a network: the tests shall not wait longer
CONNECT_MILLISECONDS: Final = 5_000
WAIT_MILLISECONDS: Final = 120_000  # a busy machine takes its time
WIDE: Final = {"width": 1280, "height": 860}
PICTURE_WIDTHS: Final = (1280, 390, 1920)
NARROW: Final = {"width": 400, "height": 800}
_MAX_TABS: Final = 60
_SERIOUS: Final = ("serious", "critical")


def find_chromium() -> str | None:
    """Return the path of a Chromium that starts: of the machine, or one that playwright fetched."""
    return next(filter(_starts, _installed()), None)


def _installed() -> Iterator[str]:
    yield from filter(None, map(shutil.which, PROGRAMS))
    with sync_playwright() as playwright:
        folder = Path(playwright.chromium.executable_path).parents[2]
    # That is the path of a Chromium with windows; the one without has a folder beside it.
    yield from map(str, folder.glob("chromium_headless_shell-*/*/*headless*shell"))


def _starts(path: str) -> bool:
    """Return whether it is more than a name: libraries may be missing, or a whole package."""
    try:
        ran = local_processes.run(
            [path, "--version"], name="Chromium", timeout_seconds=START_SECONDS
        )
    except (TimeoutError, ChildFailedError):
        return False
    return ran.returncode == 0


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield a Chromium without a window; skip the test where none can be had."""
    path = find_chromium()
    if path is None:
        pytest.skip(MISSING)
    with sync_playwright() as playwright:
        # Chromium's own sandbox needs rights that a container often does not give.
        browser = playwright.chromium.launch(executable_path=path, chromium_sandbox=False)
        try:
            yield browser
        finally:
            browser.close()


def folder_of_pictures() -> Path | None:
    """Return the folder that COUNTERPOISE_PICTURES names; None where nobody wants pictures."""
    named = os.environ.get("COUNTERPOISE_PICTURES")
    if named is None:
        return None
    Path(named).mkdir(parents=True, exist_ok=True)
    return Path(named)


@dataclass
class Visitor:
    """Somebody who has logged in, as the browser shows it to them."""

    page: Page
    pages: str  # the address under which our pages stand
    pictures: Path | None
    clicks: int = 0  # since the login, or since `start_anew`
    problems: list[str] = field(default_factory=list)

    @classmethod
    def at(
        cls, browser: Browser, pages: str, pictures: Path | None, *, is_lenient: bool = False
    ) -> "Visitor":
        """Return somebody at the address of our pages, with cookies of their own.

        `is_lenient`: the browser keeps no content security policy, so that scripts could run.
        """
        context = browser.new_context(bypass_csp=is_lenient, viewport=WIDE)  # type: ignore[arg-type]
        context.set_default_timeout(WAIT_MILLISECONDS)
        visitor = cls(context.new_page(), pages, pictures)
        visitor._listen()
        return visitor

    @classmethod
    def log_in(cls, browser: Browser, airflow: LocalAirflow, user: str) -> "Visitor":
        """Open the fleet, log in where Airflow asks for it, and come back to the fleet."""
        pages, pictures = f"{airflow.base_url}/counterpoise", folder_of_pictures()
        visitor = cls.at(browser, pages, pictures)
        page = visitor.page
        page.goto(f"{pages}/fleet")
        page.locator("input[name=username]").fill(user)
        page.locator("input[name=password]").fill(airflow.password(user))
        page.get_by_role("button", name="Sign in").click()  # when both are there
        page.wait_for_url(f"{pages}/fleet")
        visitor.problems.clear()  # those of Airflow's own page
        return visitor

    def in_a_lenient_browser(self, browser: Browser) -> "Visitor":
        """Return the same account, logged in, in a browser that would run any script.

        A page of a run stays as it was loaded there, so that it can be looked at.
        """
        other = Visitor.at(browser, self.pages, self.pictures, is_lenient=True)
        other.page.route("**/progress", lambda route: route.fulfill(status=204))
        cookies = self.page.context.cookies()
        other.page.context.add_cookies(cookies)  # type: ignore[arg-type]
        return other

    def _listen(self) -> None:
        def on_console(message: Any) -> None:
            if message.type == "error":
                self.problems.append(f"{self.page.url}: {message.text}")

        def on_dialog(dialog: Any) -> None:
            self.problems.append(f"{self.page.url}: dialog {dialog.message!r}")
            dialog.dismiss()

        self.page.on("console", on_console)
        self.page.on("dialog", on_dialog)
        self.page.on("pageerror", lambda error: self.problems.append(f"{self.page.url}: {error}"))

    def start_anew(self) -> None:
        """Come back to the page that follows the login, and count from there."""
        self.open("/fleet")
        self.clicks = 0

    def enter_from_airflow(self, link: str) -> None:
        """Open Airflow's own home, follow a link of ours there, and count from there."""
        self.problems, problems = [], self.problems
        self.page.goto(f"{self.pages.removesuffix('/counterpoise')}/")
        self.clicks = 0
        ours = self.page.get_by_role("region", name="Kafka clusters")
        expect(ours).to_be_visible(timeout=WAIT_MILLISECONDS)
        self.take_picture("airflow-home")
        self._click(ours.get_by_role("link", name=link, exact=True))
        self.page.wait_for_url(f"{self.pages}/**")
        ours_alone = [one for one in self.problems if "counterpoise" in one]  # not Airflow's own
        self.problems = problems + ours_alone

    def open(self, path: str) -> None:
        """Open one of our pages by its address."""
        address = f"{self.pages}{path}"
        # None where the page that was there has loaded itself again at that very instant.
        response = self.page.goto(address) or self.page.goto(address)
        assert response is not None and response.ok, (path, response and response.status)

    def status_of(self, path: str) -> int:
        """Return the status of an answer that needs not be a page."""
        return self.page.request.get(f"{self.pages}{path}").status

    def follow(self, link: str) -> None:
        self._click(self.page.get_by_role("link", name=link, exact=True).first)

    def press(self, button: str) -> None:
        self._click(self.button(button))

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def _click(self, element: Locator) -> None:
        element.click()
        self.clicks += 1

    def type(self, label: str, text: str) -> None:
        self.page.get_by_label(label, exact=True).fill(text)

    def shows(self, text: str) -> None:
        """Wait until the page, which may load itself again, shows a text."""
        expect(self.page.get_by_text(text).first).to_be_visible(timeout=WAIT_MILLISECONDS)

    def texts_of(self, elements: Locator) -> list[str]:
        """Return the texts of some elements.

        One by one: `all_inner_texts` runs a script in the page, which its policy forbids.
        """
        return [element.inner_text() for element in elements.all()]

    def type_by_keyboard(self, label: str, text: str) -> None:
        """Go to a field with the tab key, and type over what it has."""
        self.tab_to(self.page.get_by_label(label, exact=True))
        self.page.keyboard.press("Control+A")
        self.page.keyboard.type(text)

    def enter(self, element: Locator) -> None:
        """Go to a link or a button with the tab key, and press Enter."""
        self.tab_to(element)
        self.page.keyboard.press("Enter")

    def tab_to(self, element: Locator) -> None:
        """Press the tab key until an element has the focus."""
        for _ in range(_MAX_TABS):
            self.page.keyboard.press("Tab")
            if element.and_(self.page.locator(":focus")).count():
                return
        raise AssertionError(f"{_MAX_TABS} tabs do not lead to {element}")

    def take_picture(self, name: str) -> None:
        if self.pictures is not None:
            self.page.screenshot(path=self.pictures / f"{name}.png")

    def take_pictures(self, name: str) -> None:
        """Take pictures of the whole page: on a desk, a phone, a large screen; light and dark."""
        if self.pictures is None:
            return
        for width in PICTURE_WIDTHS:
            self.page.set_viewport_size({"width": width, "height": 860})
            for scheme in ("light", "dark"):
                self.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                path = self.pictures / f"{name}-{width}-{scheme}.png"
                self.page.screenshot(path=path, full_page=True)
        self.page.set_viewport_size(WIDE)  # type: ignore[arg-type]
        self.page.emulate_media(color_scheme="light")

    def check_page(self, name: str) -> None:
        """Check what anybody sees of the page that is open: wide, on a phone, in light and dark."""
        self.page.evaluate("window.stop()")  # a page of what goes on would load itself again
        self.page.evaluate(AXE_SCRIPT)
        self._check_accessible("document", {"resultTypes": ["violations"]})
        self.page.emulate_media(color_scheme="dark")
        self._check_accessible("document.body", {"runOnly": ["color-contrast"]})
        self.page.set_viewport_size(NARROW)  # type: ignore[arg-type]
        self.take_picture(f"{name}-narrow-dark")
        width = self.page.evaluate("document.documentElement.scrollWidth")
        assert width <= NARROW["width"], f"{self.page.url} is {width} px wide"
        self.page.set_viewport_size(WIDE)  # type: ignore[arg-type]
        self.page.emulate_media(color_scheme="light")

    def _check_accessible(self, part: str, options: dict[str, Any]) -> None:
        found = self.page.evaluate(f"options => axe.run({part}, options)", options)
        serious = [
            (one["id"], one["help"], [node["html"][:200] for node in one["nodes"][:3]])
            for one in found["violations"]
            if one["impact"] in _SERIOUS
        ]
        assert not serious, (self.page.url, serious)

    def check_no_problem(self) -> None:
        assert self.problems == []


def main() -> int:
    """Fetch a Chromium of playwright's own where none of the machine starts; say where that is not
    possible.
    """
    if find_chromium() is not None:
        return 0
    command = [sys.executable, "-m", "playwright", "install", "chromium-headless-shell"]
    limit = {"PLAYWRIGHT_DOWNLOAD_CONNECTION_TIMEOUT": str(CONNECT_MILLISECONDS)}
    with suppress(TimeoutError):
        local_processes.run(
            command, name="playwright", timeout_seconds=FETCH_SECONDS, env=os.environ | limit
        )
    if find_chromium() is None:
        sys.stderr.write(f"{MISSING}, and none could be fetched\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
