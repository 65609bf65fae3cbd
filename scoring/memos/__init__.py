"""Sourced memos: what a run, a tip or a category teaches, with every figure bound to a fact.

* ``facts``, ``facts_formula``, ``facts_file``, ``units``   what may be said: a snapshot of facts;
* ``render``, ``render_words``   the true ways to write a fact's value;
* ``figures``, ``figures_*``, ``citations``   every figure and every citation of a text;
* ``gate``, ``gate_*``   whether each figure is what its nearest citation says it is;
* ``completeness``   which facts a memo leaves out: a signal, never a gate;
* ``rubric``   one number per memo, from weights that stand in one place.

None of these imports Django or knows of rows. The model proposes, this code disposes (ADR-0006).
"""

from __future__ import annotations
