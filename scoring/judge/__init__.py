"""The judge's bench: one question to a language model, "did this script follow this tip?".

* ``prompt``   the skill's prompt file, and the messages built from it, a tip and a script;
* ``client``   HTTP to any OpenAI-compatible server, the only retry layer;
* ``reply``    what a server's 200 must hold;
* ``verdict``  the one way in which the answer's text is read;
* ``errors``   everything that can go wrong, as one tree with `JudgeError` at its root.

None of them imports Django or knows of rows. Shaped by judges that turned an HTTP error into
"not followed" (ADR-0006: fail closed): here an error is never a label.
"""

from __future__ import annotations
