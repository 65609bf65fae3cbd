"""contextgraph: which tip did the work, and which only stood by.

The package exposes nothing by itself, so that ``contextgraph.client`` can be imported by a sender that
has kombu and nothing else. The Celery app is ``contextgraph.celery:app``.
"""
