"""`AMemIngest`: LlamaIndex's nodes and documents in the memory, as a step of an ingestion pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import uuid4

from llama_index.core.schema import BaseNode, Document, MetadataMode, TransformComponent
from pydantic import PrivateAttr

from amem_integrations import AgenticMemory
from amem_integrations.adapting import (
    Call,
    DocumentInput,
    DocumentReport,
    Documents,
    both,
    check_flags,
)


class AMemIngest(TransformComponent):
    """Stores the nodes that pass through it as notes, and returns them unchanged.

    It is the last of the `transformations` of an `IngestionPipeline`, or is called with nodes or documents. A node
    belongs to the document it was cut from (`ref_doc_id`; a document to itself): the nodes of a document replace those
    that it had before, and what is unchanged costs nothing, whatever ids the splitter gave them. So documents need ids that stay, as
    for LlamaIndex's own stores: `SimpleDirectoryReader(…, filename_as_id=True)`. A node that was cut from none, and
    is no document, replaces the one of its id.
    https://developers.llamaindex.ai/python/framework/module_guides/loading/ingestion_pipeline/transformations/

    A pipeline with `num_workers` copies its steps into other processes, which a memory cannot be; run it without.

    Example:
        >>> from amem_integrations import AgenticMemory
        >>> from amem_integrations.testing import HashEmbedder
        >>> from llama_index.core import Document
        >>> memory = AgenticMemory.open(":memory:", embedder=HashEmbedder())
        >>> ingest = AMemIngest(memory, ("team",))
        >>> ingest.add([Document(text="Prune in March.", doc_id="trees.txt")]).added
        1
    """

    _documents: Documents = PrivateAttr()
    _options: dict[str, Any] = PrivateAttr()

    def __init__(
        self,
        memory: AgenticMemory,
        namespace: Sequence[str],
        *,
        replace: bool = True,
        evolve: bool = False,
        progress: bool | Callable[[int, int], None] = False,
    ) -> None:
        """Take a memory.

        Args:
            memory: Where the nodes go.
            namespace: Whose they are.
            replace: Remove the notes of nodes that a document does not have any more; False if the nodes of one
                document come in several calls.
            evolve: Put nodes as notes of a conversation, which are constructed, linked and evolve at once.
            progress: True logs how far it is; a function is called with (nodes added, nodes in all).

        Raises:
            ConfigurationError: `replace` or `evolve` is neither True nor False.
            NamespaceError: The namespace is not a non-empty tuple of strings.
        """
        check_flags(replace=replace, evolve=evolve)
        super().__init__()
        self._documents = Documents(memory, namespace)
        self._options = {"replace": replace, "evolve": evolve, "progress": progress}

    async def _add(self, call: Call, nodes: Sequence[BaseNode]) -> DocumentReport:
        """Add nodes or documents, and return what that did.

        Raises:
            InvalidInputError: A node cannot be stored; those before it are.
        """
        return await call(self._documents.add, [*map(_input, nodes)], **self._options)

    async def _remove(self, call: Call, ref_doc_ids: Iterable[str]) -> int:
        """Remove all notes of these documents for good, and return how many there were."""
        return await call(self._documents.remove, sources=list(ref_doc_ids))

    add, aadd = both(_add)
    remove, aremove = both(_remove)

    def __call__(self, nodes: Sequence[BaseNode], **_: Any) -> Sequence[BaseNode]:  # noqa: ANN401
        """Store nodes, and return them."""
        self.add(nodes)
        return nodes

    async def acall(self, nodes: Sequence[BaseNode], **_: Any) -> Sequence[BaseNode]:  # noqa: ANN401
        """Store nodes, and return them."""
        await self.aadd(nodes)
        return nodes

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:  # noqa: ANN401 - LlamaIndex's signature
        """Return a different value each time: the cache of a pipeline must not skip what only the memory knows."""
        return {**super().to_dict(**kwargs), "run": uuid4().hex}


def _input(node: BaseNode) -> DocumentInput:
    whole = node.source_node.node_id if node.source_node else None
    is_document = whole is None and isinstance(node, Document)
    return DocumentInput(
        text=node.get_content(metadata_mode=MetadataMode.NONE),
        id=None if whole or is_document else node.node_id,
        source=whole or (node.node_id if is_document else None),
        metadata=node.metadata,
    )
