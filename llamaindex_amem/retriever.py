"""`AMemRetriever`: the memory as a LlamaIndex retriever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llama_index.core.callbacks import CallbackManager
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from amem_integrations import AgenticMemory, ScoredNote
from amem_integrations.adapting import OnError, check_namespace, in_thread

from .events import Failures
from .recall import check_count

# What a language model is shown beside the text of a note; the rest of its metadata is for programs.
SHOWN = {"speaker", "at", "contexts"}


class AMemRetriever(BaseRetriever):
    """Finds notes, and what they are linked to, without calling a chat model.

    A node is a note: its id is the note's id, its text the note's content word for word. Score,
    similarity, tags, keywords, contexts and links are in its metadata; `via` is `"match"`, or the path of
    links that led to the note.
    https://developers.llamaindex.ai/python/framework/module_guides/querying/retriever/

    Example:
        >>> from amem_integrations import AgenticMemory
        >>> from amem_integrations.testing import HashEmbedder
        >>> memory = AgenticMemory.open(":memory:", embedder=HashEmbedder())
        >>> note = memory.add("I moved to Oslo.", namespace=("ann",))
        >>> retriever = AMemRetriever(memory=memory, namespace=("ann",))
        >>> retriever.retrieve("Where did Ann move to?")[0].text
        'I moved to Oslo.'
    """

    def __init__(
        self,
        memory: AgenticMemory,
        namespace: Sequence[str],
        *,
        k: int = 10,
        where: Mapping[str, Any] | None = None,
        min_similarity: float | None = None,
        links: bool = True,
        on_error: OnError = "log",
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
    ) -> None:
        """Take what `AgenticMemory.search` takes.

        Args:
            memory: The memory to search.
            namespace: Whose notes.
            k: Most notes to return.
            where: Conditions on fields.
            min_similarity: Least cosine of query and note.
            links: Whether links are followed.
            on_error: `"log"` returns no notes while the store or the embedder does not answer; `"raise"`
                raises.
            callback_manager: The framework's.
            verbose: The framework's.

        Raises:
            NamespaceError: The namespace is not a non-empty tuple of strings.
            ConfigurationError: `k` or `on_error` cannot be used.
        """
        self._memory = memory
        self._options: dict[str, Any] = {
            "namespace": check_namespace(namespace),
            "k": check_count("k", k),
            "where": where,
            "min_similarity": min_similarity,
            "links": links,
        }
        self._failures = Failures(on_error)
        super().__init__(callback_manager=callback_manager, verbose=verbose)

    @property
    def failures(self) -> dict[str, int]:
        """How often the memory did not answer so far."""
        return self._failures.snapshot()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        query = query_bundle.query_str
        if not query.strip() or self._failures.resting("recall"):
            return []
        with self._failures.tolerated("recall"):
            return [to_node(hit) for hit in self._memory.search(query, **self._options)]
        return []

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        # The loop may be one of the framework's, which is closed afterwards, as in `QueryFusionRetriever`.
        return await in_thread(self._retrieve, query_bundle)


def to_node(hit: ScoredNote) -> NodeWithScore:
    """Return a note as a node; see `AMemRetriever`."""
    metadata = hit.to_dict()
    del metadata["score"]  # the framework has a place of its own for it
    hidden = [name for name, value in metadata.items() if name not in SHOWN or not value]
    node = TextNode(
        id_=hit.note.id,
        text=hit.note.content,
        metadata=metadata,
        excluded_llm_metadata_keys=hidden,
        excluded_embed_metadata_keys=list(metadata),
    )
    return NodeWithScore(node=node, score=float(hit.score))
