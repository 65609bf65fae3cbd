"""Tests of the action-trace signal."""

from __future__ import annotations
