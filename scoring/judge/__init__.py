"""The judge's bench: one question to a language model, "did this script follow these tips?".

* ``prompt``, ``prompt_file``, ``fences``   the skill's prompt file, and the messages built from it;
* ``redact``     takes secrets out of scripts and tips before they leave;
* ``client``, ``config``, ``statuses``   HTTP to any OpenAI-compatible server, the only retry layer;
* ``reply``      what a server's 200 must hold;
* ``verdict``, ``decoding``   the one way in which the answer's text is read;
* ``evidence``, ``inert``     whether its quotes stand in the script, and do something there;
* ``errors``     everything that can go wrong, as one tree with `JudgeError` at its root.

None of them imports Django or knows of rows. Shaped by judges that turned an HTTP error into
"not followed" (ADR-0006: fail closed): here an error is never a label.
"""

from __future__ import annotations
