"""Where the decisions of a sample are carried out: real commands, real files, real pages."""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin

from eventfold.events import (
    AgentThinkAction,
    AgentThinkObservation,
    BrowseInteractiveAction,
    BrowserOutputObservation,
    CmdOutputObservation,
    CmdRunAction,
    ErrorObservation,
    Event,
    FileEditAction,
    FileEditObservation,
    FileReadAction,
    FileReadObservation,
    IPythonRunCellAction,
    IPythonRunCellObservation,
    Observation,
    RecallObservation,
    TaskTrackingAction,
    TaskTrackingObservation,
)

__all__ = ["Sandbox", "open_sandbox"]

WORKSPACE: Final = "/workspace"
SITE: Final = "http://localhost:8000"
TIMEOUT: Final = 60  # seconds
CONTEXT_LINES: Final = 3  # shown before and after an edit


@contextmanager
def open_sandbox(
    project: str, files: Mapping[str, str], pages: Mapping[str, str], now: datetime
) -> Iterator[Sandbox]:
    """A fresh repository with these files, and a site with these pages; gone afterwards."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        write_files(folder / "site", pages)
        with _served(folder / "site") as site:
            yield Sandbox(folder, project, files, site, now)


class Sandbox:
    """A project's folder below what commands and files call ``/workspace``, and a browser."""

    def __init__(
        self, folder: Path, project: str, files: Mapping[str, str], site: str, now: datetime
    ) -> None:
        self._root = folder / "workspace"
        self._project = self._root / project
        self._home = folder / "home"
        self._bin = folder / "bin"
        self._site = site
        self._page = Page(SITE)
        self._visited: list[str] = []
        self._todo: list[dict[str, Any]] = []
        self._home.mkdir()
        self._bin.mkdir()
        # The interpreter itself, not a virtual environment's: the standard library and no more.
        (self._bin / "python3").symlink_to(os.path.realpath(sys.executable))
        write_files(self._project, files)
        start = "git init -q -b main && git add -A && git commit -qm Start"
        output, exit_code = self._run(["bash", "-c", start], now)
        if exit_code != 0:
            raise RuntimeError(f"no repository could be made, git 2.28 is needed: {output}")

    def workspace_context(self, now: datetime) -> RecallObservation:
        """What is known of the repository at the start of a run."""
        instructions = self._project / "AGENTS.md"
        branch, _ = self._run(["git", "branch", "--show-current"], now)
        place = self._shown(str(self._project))
        return RecallObservation(
            content="Added workspace context",
            recall_type="workspace_context",
            repo_name=f"example/{self._project.name}",
            repo_directory=place,
            repo_branch=branch.strip(),
            repo_instructions=instructions.read_text("utf-8") if instructions.exists() else "",
            date=now.date().isoformat(),
            working_dir=place,
        )

    def result_of(self, action: Event, now: datetime) -> Observation | None:
        """Does it and says what came back; None for an action that has no result."""
        match action:
            case CmdRunAction(command=command):
                output, exit_code = self._run(["bash", "-c", self._real(command)], now)
                return CmdOutputObservation(output, command=command, exit_code=exit_code)
            case IPythonRunCellAction(code=code):
                output, _ = self._run(["python3", "-c", self._real(code)], now)
                return IPythonRunCellObservation(output, code=code)
            case FileReadAction() | FileEditAction():
                return self._file(action)
            case BrowseInteractiveAction():
                return self._browse(action)
            case TaskTrackingAction():
                return self._track(action)
            case AgentThinkAction():
                return AgentThinkObservation("Your thought has been logged.")
        return None

    # What is real and what is shown

    def _real(self, text: str) -> str:
        return text.replace(WORKSPACE, str(self._root)).replace(SITE, self._site)

    def _shown(self, text: str) -> str:
        """An output as it is logged: with no place and no time of this machine in it."""
        text = text.replace(str(self._root), WORKSPACE).replace(self._site, SITE)
        return re.sub(r"(Ran \d+ tests? in )\d+\.\d+s", r"\g<1>0.001s", text)

    # Commands

    def _run(self, arguments: list[str], now: datetime) -> tuple[str, int]:
        """Output and exit code; blank lines at the output's end are left out."""
        done = subprocess.run(
            arguments,
            cwd=self._project,
            env=self._environment(now),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT,
            check=False,
        )
        return self._shown(done.stdout.decode("utf-8", "replace").rstrip()), done.returncode

    def _environment(self, now: datetime) -> dict[str, str]:
        who = {"NAME": "agent", "EMAIL": "agent@example.com", "DATE": now.isoformat()}
        return {
            "PATH": f"{self._bin}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self._home),
            "LC_ALL": "C",
            "TZ": "UTC",
            "PYTHONUTF8": "1",
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONNODEBUGRANGES": "1",
            "PYTHONUNBUFFERED": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            **{f"GIT_AUTHOR_{key}": value for key, value in who.items()},
            **{f"GIT_COMMITTER_{key}": value for key, value in who.items()},
        }

    # Files

    def _file(self, action: FileReadAction | FileEditAction) -> Observation:
        path = Path(self._real(action.path))
        try:
            if isinstance(action, FileReadAction):
                return _read(action, path)
            if action.command == "create":
                return _create(action, path)
            return _edit(action, path)
        except (OSError, ValueError) as error:
            return ErrorObservation(self._shown(str(error)))

    # The todo list

    def _track(self, action: TaskTrackingAction) -> TaskTrackingObservation:
        if action.command == "plan":
            self._todo = action.task_list
            said = f"The todo list has been updated: {len(self._todo)} items."
        else:
            said = "\n".join(f"[{item['status']}] {item['title']}" for item in self._todo)
        return TaskTrackingObservation(said, command=action.command, task_list=self._todo)

    # Pages

    def _browse(self, action: BrowseInteractiveAction) -> BrowserOutputObservation:
        """Does ``goto("url")``, ``click("number of a link")`` or ``go_back()``."""
        said = re.fullmatch(r'(goto|click|go_back)\("?([^"]*)"?\)', action.browser_actions)
        verb, target = said.groups() if said is not None else ("", "")
        if verb == "click":
            target = self._page.links[int(target)]
        elif verb == "go_back":
            self._visited.pop()
            target = self._visited.pop()
        url = urljoin(self._page.url, target)
        html, error = self._fetch(url)
        self._page = Page(url)
        self._page.feed(html)
        self._visited.append(url)
        return BrowserOutputObservation(
            self._page.text(),
            url=url,
            trigger_by_action="browse_interactive",
            open_pages_urls=[url],
            active_page_index=0,
            last_browser_action=action.browser_actions,
            last_browser_action_error=error,
            error=bool(error),
        )

    def _fetch(self, url: str) -> tuple[str, str]:
        """A page and an error, empty if all is well."""
        no_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with no_proxy.open(self._real(url), timeout=TIMEOUT) as answer:
                body, error = answer.read(), ""
        except urllib.error.HTTPError as failed:
            body, error = failed.read(), f"HTTP {failed.code}: {failed.reason}"
        return self._shown(body.decode("utf-8")), error


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def _read(action: FileReadAction, path: Path) -> FileReadObservation:
    first, last = action.view_range or (1, -1)
    shown = _numbered(path.read_text("utf-8"), first, last)
    return FileReadObservation(
        f"Here's the result of running `cat -n` on {action.path}:\n{shown}",
        path=action.path,
        impl_source=action.impl_source,
    )


def _create(action: FileEditAction, path: Path) -> FileEditObservation:
    if path.exists():
        raise ValueError(f"There is a file at {path} already: `create` does not overwrite it.")
    write_files(path.parent, {path.name: action.file_text or ""})
    return FileEditObservation(
        f"File created successfully at: {action.path}",
        path=action.path,
        impl_source=action.impl_source,
    )


def _edit(action: FileEditAction, path: Path) -> FileEditObservation:
    before = path.read_text("utf-8")
    new = action.new_str or ""
    if action.command == "insert":
        lines = before.splitlines(keepends=True)
        line = action.insert_line or 0
        after = "".join([*lines[:line], new, *lines[line:]])
    else:
        old = action.old_str or ""
        found = before.count(old)
        if found != 1:
            raise ValueError(
                f"No replacement was performed: old_str `{old}` was found {found} times in {path}. "
                "It must be there exactly once, with the same blanks."
            )
        line = before[: before.index(old)].count("\n")
        after = before.replace(old, new)
    path.write_text(after, "utf-8")
    shown = _numbered(
        after, max(1, line + 1 - CONTEXT_LINES), line + 1 + new.count("\n") + CONTEXT_LINES
    )
    diff = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), n=1
    )
    return FileEditObservation(
        f"The file {action.path} has been edited. Here's the result of running `cat -n` on a "
        f"snippet of {action.path}:\n{shown}Review the changes and make sure they are as expected. "
        "Edit the file again if necessary.",
        path=action.path,
        prev_exist=True,
        diff="".join(diff),
        impl_source=action.impl_source,
    )


def _numbered(text: str, first: int, last: int) -> str:
    """The lines of a text as ``cat -n`` shows them, from the first to the last; -1 is the end."""
    lines = text.splitlines()
    last = len(lines) if last == -1 else min(last, len(lines))
    return "".join(f"{n:6}\t{lines[n - 1]}\n" for n in range(first, last + 1))


class Page(HTMLParser):
    """A web page as text; its links are numbered: ``[0] Home [1] Stations``."""

    BLOCKS: Final = {"h1", "h2", "p", "pre", "table", "title", "ul"}
    LINES: Final = {"li", "tr"}
    MARKS: Final = {"h1": "# ", "h2": "## ", "li": "- ", "td": "| ", "th": "| "}

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.links: list[str] = []
        self._parts: list[str] = []
        self._skipped = False
        self._verbatim = False

    def text(self) -> str:
        text = re.sub(r"[ \t]+\n", "\n", "".join(self._parts))
        return re.sub(r"\n\n+", "\n\n", text).strip()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._skipped = tag == "style"
        self._verbatim = self._verbatim or tag == "pre"
        if tag in self.BLOCKS or tag in self.LINES:
            self._parts.append("\n")
        self._parts.append(self.MARKS.get(tag, ""))
        if tag == "a":
            self._parts.append(f"[{len(self.links)}] ")
            self.links.append(dict(attrs).get("href") or "")

    def handle_endtag(self, tag: str) -> None:
        self._skipped = False
        self._verbatim = self._verbatim and tag != "pre"
        if tag in self.BLOCKS:
            self._parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self._parts.append(data if self._verbatim else re.sub(r"\s+", " ", data))


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    """The address at which the folder's files are served."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
