"""Becomes a service of docker-compose.yaml: its root, its user, its environment, its command.

    unshare --mount --pid --fork --uts --ipc python -I -S container.py spec.json

Run by path, as root, in namespaces of its own; standard library only. The root is made of folders
of this machine, read-only; only what the service declares can be written.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

# What Docker mounts a tmpfs with, unless the file says otherwise: nothing on it can be executed,
# nor mapped as a native library.
TMPFS_OPTIONS = "mode=1777,noexec,nosuid,nodev"
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}


def mount(*words: str | Path) -> None:
    subprocess.run(["mount", *map(str, words)], check=True)


def bind(source: Path, target: Path, *, may_write: bool) -> None:
    """Show a file or a folder of this machine at `target`."""
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    mount("--bind", source, target)
    if not may_write:
        mount("-o", "remount,bind,ro", target)


def make_root(root: Path, spec: dict[str, Any]) -> None:
    mount("--make-rprivate", "/")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", root)
    for name, target in LINKS.items():
        (root / name).symlink_to(target)
    for path in spec["shown"]:
        bind(Path(path), root / path.lstrip("/"), may_write=False)
    for name, text in spec["files"].items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    for path in spec["hidden"]:
        mount("-t", "tmpfs", "-o", "ro", "tmpfs", root / path.lstrip("/"))
    for volume in spec["volumes"]:
        target = root / volume["target"].lstrip("/")
        bind(Path(volume["source"]), target, may_write=volume["may_write"])
    make_kernel_folders(root, spec)
    mount("-o", "remount,ro", root)


def make_kernel_folders(root: Path, spec: dict[str, Any]) -> None:
    for folder in ("proc", "dev", "dev/shm", spec["workdir"].lstrip("/")):
        (root / folder).mkdir(parents=True, exist_ok=True)
    mount("-t", "proc", "proc", root / "proc")
    mount("-t", "tmpfs", "-o", f"{TMPFS_OPTIONS},size=64m", "tmpfs", root / "dev" / "shm")
    for name in DEVICES:
        bind(Path("/dev", name), root / "dev" / name, may_write=True)
    (root / "dev" / "fd").symlink_to("/proc/self/fd")
    for declared in spec["tmpfs"]:
        path, _, options = declared.partition(":")
        (root / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
        joined = ",".join(filter(None, (TMPFS_OPTIONS, options)))
        mount("-t", "tmpfs", "-o", joined, "tmpfs", root / path.lstrip("/"))


def main() -> None:
    spec = json.loads(Path(sys.argv[1]).read_text())
    root = Path(spec["root"])
    make_root(root, spec)
    subprocess.run(["hostname", spec["hostname"]], check=True)
    os.chroot(root)
    os.chdir(spec["workdir"])
    os.setgroups([])
    os.setgid(spec["user"])
    os.setuid(spec["user"])
    os.umask(0o022)
    os.execvpe(spec["command"][0], spec["command"], spec["environment"])


if __name__ == "__main__":
    main()
