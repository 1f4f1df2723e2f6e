"""What happens to notes after they were written: edits, undo, proposals, traces of what is gone."""
