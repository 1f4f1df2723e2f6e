"""The write path, step by step: ask a model, then apply its answer by a pure function."""
