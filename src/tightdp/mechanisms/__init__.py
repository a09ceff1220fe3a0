"""Mechanisms: each previews, draws and reads one kind of release; all are paid for in one place."""
