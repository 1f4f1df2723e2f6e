"""Retrieval: the notes that answer a query, in order, and the text of a prompt that is made of them.

- `search`: the best notes for a query, over words, meaning and links.
- `ranking`: how hits of several lists and what links lead to become one list.
- `current_facts`: which notes are current at a time, and which others stand above a note.
- `passages`: which parts of long texts answer a query.
- `relevance`: what a query is about, and whether a note has to do with it.
- `context`: the text of a prompt.
"""
