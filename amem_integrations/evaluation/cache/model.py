"""A chat model that answers what it has answered before without being asked again."""

from __future__ import annotations

from ..._sync import resolve, run
from ...ports import ChatModel, Completion, ModelRequest
from .kept import Kept, key_of


class KeptModel:
    """Hands requests to `model` and keeps its replies; the tokens are counted as if it had answered.

    Attributes:
        name: The model's name.
    """

    def __init__(self, model: ChatModel, kept: Kept, *, identity: str) -> None:
        """Keep replies in `kept`, apart from those of models of another `identity`.

        Args:
            model: Answers what is not kept.
            kept: Where replies are.
            identity: What decides the answers: model, endpoint, temperature.
        """
        self.name = str(getattr(model, "name", type(model).__name__))
        self._model = model
        self._kept = kept
        self._identity = identity

    def generate(self, request: ModelRequest) -> Completion:
        """Return the reply that is kept, else the model's.

        Raises:
            ModelUnavailableError: Nothing is kept, and the model gave no answer.
        """
        key = key_of(
            self._identity, request.system, request.prompt, request.reply.model_json_schema()
        )
        known = self._kept.reply(key)
        if known is not None:
            return known
        self._kept.keep_reply(key, run(resolve(self._model.generate(request))))
        # Read again: of two threads that asked at once, both have to go on with the same reply.
        return self._kept.reply(key) or Completion(text="")
