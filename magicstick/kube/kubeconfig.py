"""Credentials from kubeconfig files, with messages that name the file and field at fault.

kubernetes-asyncio knows how to authenticate (tokens, client certificates, exec plugins, OIDC); it does
not say well what is wrong with a file, nor when an exec plugin has to run again.
"""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import yaml

from magicstick.kube import library
from magicstick.kube.credentials import ConfigError, Credentials

PLUGIN_TIMEOUT_S = 30.0
RENEW_BEFORE = timedelta(minutes=2)
"""Credentials of a plugin are renewed so long before they expire; longer than they are kept unread."""
MESSAGE_LIMIT = 400
SECTIONS = ("contexts", "clusters", "users")

Entry = Mapping[str, Any]


class KubeconfigSource:
    """One context of one or more kubeconfig files, merged as kubectl does: the first to name a thing wins.

    Files are read anew each time. An exec plugin runs again when what it gave expires, when a file
    changed, and when its credentials were refused; not at each read.
    """

    def __init__(self, files: Sequence[Path], context: str | None = None) -> None:
        self._files = tuple(path.expanduser() for path in files)
        self._context = context
        self._last: Credentials | None = None
        self._last_stamp: object = None
        self._expires: datetime | None = None
        self._under_way: asyncio.Task[tuple[Credentials, datetime | None]] | None = None

    @property
    def description(self) -> str:
        """See `CredentialSource`."""
        place = f"kubeconfig {_join(self._files)}"
        return f"{place}, context {self._context}" if self._context else place

    async def read(self, *, fresh: bool) -> Credentials:
        """See `CredentialSource`."""
        config = Kubeconfig.read(self._files)
        choice = config.choose(self._context)
        stamp = tuple(_stamp(path) for path in self._files)
        lasts = self._expires is None or datetime.now(UTC) + RENEW_BEFORE < self._expires
        if choice.plugin and not fresh and lasts and stamp == self._last_stamp and self._last is not None:
            return self._last
        self._last = await self._authenticate(config, choice)
        self._last_stamp = stamp
        return self._last

    async def _authenticate(self, config: "Kubeconfig", choice: "Choice") -> Credentials:
        """Have the library authenticate.

        A plugin that is still under way (it may wait for somebody to log in) is joined at the next
        read, never started a second time beside the first.
        """
        if self._under_way is None:
            self._under_way = asyncio.create_task(_load(config, choice))
            self._under_way.add_done_callback(_retrieve)
        task = self._under_way
        try:
            async with asyncio.timeout(PLUGIN_TIMEOUT_S):
                credentials, self._expires = await asyncio.shield(task)
        except Exception as error:  # noqa: BLE001 # a malformed field makes the library raise anything
            raise ConfigError(f"{choice.where}: {_explain(error, choice.plugin)}") from None
        finally:
            if task.done():
                self._under_way = None
        return credentials


async def _load(config: "Kubeconfig", choice: "Choice") -> tuple[Credentials, datetime | None]:
    """The credentials, and when they expire where a plugin says so."""
    configuration = library.enter()()
    from kubernetes_asyncio.config.kube_config import load_kube_config  # noqa: PLC0415 # see library

    loader = await load_kube_config(
        config_file=_join(config.files), context=choice.context, client_configuration=configuration
    )
    return await Credentials.of(configuration), getattr(loader, "exec_plugin_expiry", None)


def _explain(error: Exception, plugin: str) -> str:
    """What went wrong while authenticating, without the content of any field."""
    from kubernetes_asyncio.config.config_exception import ConfigException  # noqa: PLC0415 # see library

    if isinstance(error, TimeoutError):
        return f"no answer within {PLUGIN_TIMEOUT_S:g} s"
    if isinstance(error, FileNotFoundError):
        if plugin and error.filename in (plugin, None):  # uvloop does not tell what it did not find
            return "not installed; install it, or put it on PATH"
        return f"there is no file {error.filename}"
    if isinstance(error, OSError | ConfigException | ConfigError):
        return str(error)[:MESSAGE_LIMIT]
    # The text of any other exception could quote a field; so could its traceback.
    return f"cannot be used ({type(error).__name__}); check its fields, base64 data above all"


def _retrieve(task: "asyncio.Task[tuple[Credentials, datetime | None]]") -> None:
    """Take note of an exception that nobody may be left to await."""
    if not task.cancelled():
        task.exception()


@dataclass(frozen=True, slots=True)
class Choice:
    """A context whose cluster and user are there."""

    context: str
    file: Path
    """Where the context is."""
    user: str
    user_file: Path
    plugin: str
    """The command of the user's exec plugin; "" for other users."""

    @property
    def where(self) -> str:
        """The place to look at when authentication fails."""
        if not self.user:
            return f"{self.file}: contexts[name={self.context}]"
        place = f"{self.user_file}: users[name={self.user}].user"
        return f"{place}.exec, {self.plugin}" if self.plugin else place


@dataclass(slots=True)
class Kubeconfig:
    """The entries of some kubeconfig files, by section and name."""

    files: tuple[Path, ...]
    """Those that hold something."""
    current: str = ""
    entries: dict[tuple[str, str], tuple[Path, Entry]] = field(default_factory=dict)

    @classmethod
    def read(cls, files: Sequence[Path]) -> Self:
        """Read all that exist.

        Raises:
            ConfigError: none exists, or one is no kubeconfig.
        """
        contents = [(path, _content(path)) for path in files if _is_file(path)]
        if not contents:
            raise ConfigError(
                f"no kubeconfig at {_join(files)}: set KUBECONFIG or --kubeconfig to an existing file, "
                "or run inside a cluster"
            )
        # The library cannot read an empty file; kubectl can.
        merged = cls(tuple(path for path, content in contents if content) or (contents[0][0],))
        for path, content in contents:
            merged.current = merged.current or str(content.get("current-context") or "")
            for section in SECTIONS:
                for entry in _entries(path, content, section):
                    merged.entries.setdefault((section, entry["name"]), (path, entry))
        return merged

    def choose(self, context: str | None) -> Choice:
        """The context of this name, or the current one.

        Raises:
            ConfigError: it, its cluster or its user is not there, or names no server.
        """
        name = context or self.current
        if not name:
            raise ConfigError(f"{_join(self.files)}: current-context is not set; {self._advice()}")
        if ("contexts", name) not in self.entries:
            raise ConfigError(f"{_join(self.files)}: there is no context {name!r}; {self._advice()}")
        file, entry = self.entries["contexts", name]
        where = f"contexts[name={name}]"
        body = _mapping(file, where, entry, "context")
        cluster = str(body.get("cluster") or "")
        cluster_file, found = self._refer(file, f"{where}.context.cluster", "clusters", cluster)
        place = f"clusters[name={cluster}]"
        settings = _mapping(cluster_file, place, found, "cluster")
        if not _is_url(settings.get("server")):
            raise ConfigError(f"{cluster_file}: {place}.cluster.server must be an http(s) URL")
        if settings.get("proxy-url") and not _is_url(settings["proxy-url"]):
            raise ConfigError(f"{cluster_file}: {place}.cluster.proxy-url must be an http(s) URL")
        user = str(body.get("user") or "")
        if not user:
            return Choice(name, file, "", file, "")
        user_file, found = self._refer(file, f"{where}.context.user", "users", user)
        return Choice(name, file, user, user_file, _plugin(user_file, user, found))

    def _refer(self, file: Path, field_: str, section: str, name: str) -> tuple[Path, Entry]:
        if not name:
            raise ConfigError(f"{file}: {field_} is not set")
        if (section, name) not in self.entries:
            raise ConfigError(f"{file}: {field_} is {name!r}, which is not among the {section}")
        return self.entries[section, name]

    def _advice(self) -> str:
        names = sorted(name for section, name in self.entries if section == "contexts")
        return f"choose one of {', '.join(names)} with --context" if names else "the file has no contexts"


def kubeconfig_files(path: Path | None) -> tuple[Path, ...]:
    """The file that was asked for, those of `$KUBECONFIG`, or the one in the home directory."""
    if path is not None:
        return (path,)
    listed = tuple(Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part)
    return listed or (Path("~/.kube/config"),)


def _is_file(path: Path) -> bool:
    """Whether there is a file; the paths in `$KUBECONFIG` may be impossible ones."""
    try:
        return path.is_file()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None


def _content(path: Path) -> Mapping[str, Any]:
    """A file's mapping, empty for an empty file."""
    try:
        content = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ConfigError(f"{path} cannot be read: {reason}") from error
    except RecursionError:
        raise ConfigError(f"{path} is no kubeconfig: it is nested too deep") from None
    except yaml.YAMLError as error:
        # The parser's own text quotes the line, which may hold a token; the cause would as well.
        raise ConfigError(f"{path} is not valid YAML{_place(error)}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path} is no kubeconfig: it must be a mapping with {', '.join(SECTIONS)}")
    return content


def _place(error: yaml.YAMLError) -> str:
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    return f": look at line {mark.line + 1}, column {mark.column + 1}" if mark else ""


def _is_url(value: object) -> bool:
    """Whether it is an http(s) URL to which a path can be added."""
    if not isinstance(value, str) or not value.isprintable() or {" ", "?", "#"} & set(value):
        return False
    try:
        parts = urlsplit(value)
        # Asking for the port is what checks it.
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _entries(path: Path, content: Mapping[str, Any], section: str) -> Iterator[Entry]:
    listed = content.get(section) or []
    if not isinstance(listed, list):
        raise ConfigError(f"{path}: {section} must be a list")
    for number, entry in enumerate(listed):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise ConfigError(f"{path}: {section}[{number}] must be a mapping with a name")
        yield entry


def _mapping(path: Path, where: str, entry: Entry, key: str) -> Entry:
    value = entry.get(key)
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: {where}.{key} must be a mapping")
    return value


def _plugin(path: Path, user: str, entry: Entry) -> str:
    where = f"users[name={user}]"
    body = entry.get("user")
    if not body:  # a user without credentials
        return ""
    body = _mapping(path, where, entry, "user")
    if not body.get("exec"):
        return ""
    command = _mapping(path, f"{where}.user", body, "exec").get("command")
    if not isinstance(command, str) or not command:
        raise ConfigError(f"{path}: {where}.user.exec.command is not set")
    return command


def _join(files: Sequence[Path]) -> str:
    return os.pathsep.join(str(path) for path in files)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Changes whenever the file does."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
