"""What happens to notes after they were written: edits, undo, proposals, removal of what is gone."""
