"""What one command line does: its actions on services, packages, files, and what it prints.

Guarantees: pure functions of the arguments; never raises on any argument list; wrappers such as
sudo, xargs and `find -exec` are looked through, three deep.

Does not guarantee that an unlisted program has no effect: it is kept as a COMMAND action with its
arguments, so that a tip naming it can still be matched.

Shaped by scripts in which the same change hides behind `find … -exec chgrp`, `xargs sed -i`, or
`tee` at the end of a pipe.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from scoring.trace.actions import IMPLIED, UNKNOWN, Action, ActionKind, base_name, unit_name
from scoring.trace.invocation import Effect, Invocation, unwrapped, write_actions
from scoring.trace.stream_edit import literal_substitution, sed_edits
from scoring.trace.texts import echo_text, printf_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_NESTING: Final = 3
_SERVICE_VERBS: Final = (
    "enable", "disable", "start", "stop", "restart", "reload", "mask", "unmask", "try-restart",
    "reload-or-restart", "preset", "reenable", "isolate", "set-default", "condrestart",
    "force-reload",
)  # fmt: skip
_PACKAGE_VERBS: Final = (
    "install", "reinstall", "remove", "erase", "purge", "autoremove", "update", "upgrade",
    "localinstall", "groupinstall", "in", "rm", "downgrade",
)  # fmt: skip


def perform(call: Invocation) -> Effect:
    """Interpret one command line."""
    argv = unwrapped(call.argv, call.vocabulary)
    if not argv or not argv[0] or call.depth > _NESTING:
        return Effect()
    name = base_name(argv[0])
    call = Invocation(
        argv=(name, *argv[1:]),
        stdin=call.stdin,
        line=call.line,
        vocabulary=call.vocabulary,
        depth=call.depth,
    )
    plain = Action(kind=ActionKind.COMMAND, target=name, args=call.args, line=call.line)
    handler = _HANDLERS.get(name)
    if handler is None and name in call.vocabulary.package_tools:
        handler = _package
    effect = handler(call) if handler else Effect(outputs=(UNKNOWN,))
    return Effect(actions=(plain, *effect.actions), outputs=effect.outputs)


def _systemctl(call: Invocation) -> Effect:
    words = call.operands
    if not words or words[0] not in _SERVICE_VERBS:
        return Effect(outputs=(UNKNOWN,))
    verbs = [words[0]]
    if "--now" in call.options:
        verbs += {"enable": ["start"], "disable": ["stop"], "mask": ["stop"]}.get(words[0], [])
    asked, *implied = verbs
    return Effect(
        actions=_services(call, [asked], words[1:])
        + _services(call, implied, words[1:], text=IMPLIED)
    )


def _services(
    call: Invocation, verbs: Sequence[str], units: Sequence[str], *, text: str = ""
) -> tuple[Action, ...]:
    return tuple(
        Action(
            kind=ActionKind.SERVICE, target=unit_name(unit), verb=verb, text=text, line=call.line
        )
        for unit in units
        for verb in verbs
    )


def _service(call: Invocation) -> Effect:
    words = call.operands
    verb = {"on": "enable", "off": "disable"}.get(words[1], words[1]) if len(words) > 1 else ""
    if verb not in _SERVICE_VERBS:
        return Effect(outputs=(UNKNOWN,))
    return Effect(actions=_services(call, [verb], words[:1]))


def _package(call: Invocation) -> Effect:
    words = call.operands
    verb = words[0] if words else ""
    names = words[1:]
    if call.argv[0] == "rpm":
        flags = "".join(option for option in call.options if not option.startswith("--"))
        verb = "remove" if "e" in flags else "install" if set(flags) & {"i", "U"} else ""
        verb, names = ("" if "q" in flags or "V" in flags else verb), words
    if verb not in _PACKAGE_VERBS:
        return Effect(outputs=(UNKNOWN,))
    return Effect(
        actions=tuple(
            Action(kind=ActionKind.PACKAGE, target=name, verb=verb, line=call.line)
            for name in names
        )
    )


def _sed(call: Invocation) -> Effect:
    in_place, extended, programs, files = _sed_arguments(call)
    if not in_place:
        return Effect(outputs=_filtered(call, programs, files))
    edits = sed_edits("\n".join(programs), extended=extended)
    actions: list[Action] = []
    for path in files or (UNKNOWN,):
        for edit in edits:
            gone = " ".join(edit.vanished())
            if gone:
                actions.append(
                    Action(
                        kind=ActionKind.ERASE,
                        target=path,
                        verb="removes",
                        text=gone,
                        line=call.line,
                    )
                )
            if edit.written:
                actions.extend(write_actions(path, [edit.written], line=call.line, verb="edits"))
    return Effect(actions=tuple(actions))


def _sed_arguments(call: Invocation) -> tuple[bool, bool, list[str], tuple[str, ...]]:
    in_place = extended = False
    programs: list[str] = []
    files: list[str] = []
    args = iter(call.args)
    for arg in args:
        if arg.startswith("--"):
            in_place = in_place or arg.startswith("--in-place")
            extended = extended or arg == "--regexp-extended"
            if arg.startswith("--expression="):
                programs.append(arg.partition("=")[2])
        elif arg.startswith("-") and len(arg) > 1:
            flags = arg[1:].partition("i")
            in_place = in_place or bool(flags[1])
            extended = extended or bool(set(flags[0] + flags[2][:2]) & {"E", "r"})
            if arg.endswith("e"):
                programs.append(next(args, ""))
        else:
            files.append(arg)
    if call.argv[0] == "perl":
        extended = True
    if not programs and files:
        programs.append(files.pop(0))
    return in_place, extended, programs, tuple(files)


def _filtered(call: Invocation, programs: Sequence[str], files: Sequence[str]) -> tuple[str, ...]:
    if files or not call.stdin or len(programs) != 1:
        return (UNKNOWN,)
    results = [(text, literal_substitution(programs[0], text)) for text in call.stdin]
    # A filter that is not understood still passes on most of what it reads.
    return tuple(text + UNKNOWN if result is None else result for text, result in results)


def _echo(call: Invocation) -> Effect:
    return Effect(outputs=(echo_text(call.args),))


def _printf(call: Invocation) -> Effect:
    args = call.args[1:] if call.args[:1] == ("--",) else call.args
    return Effect(outputs=(printf_text(args),))


def _cat(call: Invocation) -> Effect:
    named = [word for word in call.operands if word != "-"]
    return Effect(outputs=(UNKNOWN,) if named or not call.stdin else call.stdin)


def _tee(call: Invocation) -> Effect:
    texts = call.stdin or (UNKNOWN,)
    actions = [
        action
        for path in call.operands
        for action in write_actions(path, texts, line=call.line, verb="writes")
    ]
    return Effect(actions=tuple(actions), outputs=texts)


def _ownership(call: Invocation) -> Effect:
    """chmod, chown and chgrp: a value, then paths."""
    symbolic = [arg for arg in call.args if re.fullmatch(r"-[rwxXst]+(,.*)?", arg)]
    words = (*symbolic[:1], *call.operands) if call.argv[0] == "chmod" else call.operands
    if len(words) < 2:
        return Effect()
    actions: list[Action] = []
    value, paths = words[0], words[1:]
    for path in paths:
        for kind, text in _ownership_values(call.argv[0], value):
            actions.append(Action(kind=kind, target=path, text=text, verb="sets", line=call.line))
    return Effect(actions=tuple(actions))


def _ownership_values(program: str, value: str) -> list[tuple[ActionKind, str]]:
    if program == "chmod":
        return [(ActionKind.MODE, value)]
    if program == "chgrp":
        return [(ActionKind.GROUP, value)]
    owner, _, group = value.replace(".", ":", 1).partition(":")
    pairs = [(ActionKind.OWNER, owner), (ActionKind.GROUP, group)]
    return [(kind, text) for kind, text in pairs if text]


def _link(call: Invocation) -> Effect:
    words = call.operands
    if len(words) < 2:
        return Effect()
    action = Action(
        kind=ActionKind.LINK, target=words[1], text=words[0], verb="links", line=call.line
    )
    return Effect(actions=(action,))


def _create(call: Invocation) -> Effect:
    return Effect(
        actions=tuple(
            Action(kind=ActionKind.CREATE, target=path, verb="creates", line=call.line)
            for path in call.operands
            if "/" in path
        )
    )


def _delete(call: Invocation) -> Effect:
    return Effect(
        actions=tuple(
            Action(kind=ActionKind.ERASE, target=path, verb="deletes", line=call.line)
            for path in call.operands
        )
    )


def _find(call: Invocation) -> Effect:
    args = call.args
    starts: list[str] = []
    for arg in args:
        if arg.startswith("-") and arg not in ("-P", "-L", "-H"):
            break
        if not arg.startswith(("-", "(", "!")):
            starts.append(arg)
    names = [args[i + 1] for i, arg in enumerate(args[:-1]) if arg in ("-name", "-iname")]
    places = [
        f"{start.rstrip('/')}/{name}" for start in starts or ["."] for name in names[:4]
    ] or starts
    actions: list[Action] = []
    for index, arg in enumerate(args):
        if arg in ("-exec", "-execdir", "-ok"):
            nested = [word for word in _until_semicolon(args[index + 1 :]) if word != "{}"]
            for place in places[:8]:
                actions.extend(perform(call.nested([*nested, place])).actions)
        elif arg == "-delete":
            actions.extend(_delete(call.nested(["rm", *places])).actions)
    return Effect(actions=tuple(actions), outputs=tuple(places) or (UNKNOWN,))


def _until_semicolon(words: Sequence[str]) -> list[str]:
    taken: list[str] = []
    for word in words:
        if word in (";", "\\;", "+"):
            break
        taken.append(word)
    return taken


def _xargs(call: Invocation) -> Effect:
    words = list(call.args)
    while words and words[0].startswith("-"):
        takes_value = words[0] in ("-n", "-I", "-P", "-L", "-d", "-a")
        del words[: 2 if takes_value else 1]
    if not words:
        return Effect(outputs=(UNKNOWN,))
    actions: list[Action] = []
    for text in call.stdin or (UNKNOWN,):
        actions.extend(perform(call.nested([*words, *text.split()])).actions)
    return Effect(actions=tuple(actions), outputs=(UNKNOWN,))


def _runtime_setting(call: Invocation) -> Effect:
    """sysctl -w, postconf -e: key=value arguments; persistent only where the program says so."""
    path = {"postconf": "/etc/postfix/main.cf"}.get(call.argv[0], "")
    texts = [word for word in call.operands if "=" in word]
    return Effect(actions=_settings(path, texts, call.line), outputs=(UNKNOWN,))


def _settings(path: str, texts: Sequence[str], line: int) -> tuple[Action, ...]:
    return tuple(
        Action(kind=ActionKind.WRITE, target=path, verb="sets", text=text, line=line)
        for text in texts
    )


def _auditctl(call: Invocation) -> Effect:
    return Effect(actions=_settings("", [" ".join(call.args)], call.line))


def _desktop_setting(call: Invocation) -> Effect:
    """Read `gsettings set SCHEMA KEY VALUE` and `dconf write /PATH/KEY VALUE`."""
    words = call.operands
    if len(words) >= 3 and words[0] in ("set", "write"):
        return Effect(actions=_settings("", [f"{base_name(words[-2])}={words[-1]}"], call.line))
    return Effect()


def _crudini(call: Invocation) -> Effect:
    words = call.operands
    if "--set" in call.options and len(words) >= 4:
        return Effect(actions=_settings(words[0], [f"{words[2]} = {words[3]}"], call.line))
    return Effect()


def _pass_through(call: Invocation) -> Effect:
    return Effect(outputs=call.stdin or (UNKNOWN,))


def _base(call: Invocation) -> Effect:
    return Effect(outputs=tuple(base_name(word) for word in call.operands[:1]) or (UNKNOWN,))


def _directory(call: Invocation) -> Effect:
    return Effect(
        outputs=tuple(word.rpartition("/")[0] or "." for word in call.operands[:1]) or (UNKNOWN,)
    )


def _nothing(call: Invocation) -> Effect:
    del call
    return Effect()


_HANDLERS: Final[dict[str, Callable[[Invocation], Effect]]] = {
    "systemctl": _systemctl, "service": _service, "chkconfig": _service, "rc-service": _service,
    "sed": _sed, "perl": _sed, "echo": _echo, "printf": _printf, "cat": _cat, "tee": _tee,
    "chmod": _ownership, "chown": _ownership, "chgrp": _ownership, "ln": _link, "touch": _create,
    "mkdir": _create, "rm": _delete, "unlink": _delete, "find": _find, "xargs": _xargs,
    "sysctl": _runtime_setting, "postconf": _runtime_setting, "auditctl": _auditctl,
    "gsettings": _desktop_setting, "dconf": _desktop_setting, "crudini": _crudini,
    "sort": _pass_through, "uniq": _pass_through, "head": _pass_through, "tail": _pass_through,
    "basename": _base, "dirname": _directory, "true": _nothing, ":": _nothing, "test": _nothing,
    "[": _nothing, "exit": _nothing, "cp": _nothing, "mv": _nothing,
}  # fmt: skip
