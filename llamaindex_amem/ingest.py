"""`AMemIngest`: LlamaIndex's nodes and documents in the memory, as a step of an ingestion pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

from llama_index.core.schema import BaseNode, Document, MetadataMode, TransformComponent
from pydantic import PrivateAttr

from amem_integrations import AgenticMemory, adapting

from .conversation import Door, Whose
from .events import Failures
from .memory import Uncopied
from .retriever import NODE

# Fields of a node that are kept besides its text and its metadata.
KEPT = {
    "excluded_llm_metadata_keys", "excluded_embed_metadata_keys", "metadata_template",
    "metadata_separator", "text_template", "start_char_idx", "end_char_idx",
}  # fmt: skip


class AMemIngest(Uncopied, TransformComponent):
    """Stores the nodes that pass through it as notes, and returns them unchanged.

    It is the last of the `transformations` of an `IngestionPipeline`, or is called with nodes or documents. As in a vector
    store of LlamaIndex a node is known by its id: stored again it is changed, and nothing else is. `AMemRetriever` gives
    the nodes back as they were.
    https://developers.llamaindex.ai/python/framework/module_guides/loading/ingestion_pipeline/transformations/

    With `replace=True` the nodes of a document (`ref_doc_id`; a document itself) take the place of those that it had
    before. So documents need ids that stay, as for LlamaIndex's own stores: `SimpleDirectoryReader(…,
    filename_as_id=True)`. A node whose id stays too costs nothing if it is unchanged; splitters make ids anew, unless
    they are given an `id_func`, and a document store of the pipeline (`docstore=`) keeps known documents out.

    A pipeline with `num_workers` copies its steps into other processes, which is refused; run the pipeline without.

    Example:
        >>> from amem_integrations import AgenticMemory
        >>> from amem_integrations.testing import HashEmbedder
        >>> from llama_index.core import Document
        >>> memory = AgenticMemory.open(":memory:", embedder=HashEmbedder())
        >>> ingest = AMemIngest(memory, ("team",))
        >>> ingest.add([Document(text="Prune in March.", doc_id="trees.txt")])
        DocumentReport(ids=['trees.txt'], added=1, changed=0, removed=0)
    """

    _door: Door = PrivateAttr()
    _options: dict[str, Any] = PrivateAttr()

    def __init__(
        self,
        memory: AgenticMemory,
        namespace: Whose,
        *,
        replace: bool = False,
        evolve: bool = False,
        progress: bool | Callable[[int, int], object] = False,
    ) -> None:
        """Take a memory.

        Args:
            memory: Where the nodes go.
            namespace: Whose they are: a tuple, or a function without arguments that is called at each call.
            replace: Remove the notes of nodes that a document of the call does not have any more.
            evolve: Put nodes as notes of a conversation, which are constructed, linked and evolve at once; False puts
                documents, which are found by words and meaning, and which no model links or declares outdated.
            progress: True logs how far it is; a function is called with (nodes stored, nodes in all) after every 64.

        Raises:
            ConfigurationError: An option has a value that cannot be used.
            NamespaceError: The namespace is not a non-empty tuple of strings.
        """
        adapting.check_flags(replace=replace, evolve=evolve)
        super().__init__()
        self._door = Door(memory, namespace, failures=Failures())
        self._options = {"replace": replace, "evolve": evolve, "progress": progress}

    def add(self, nodes: Sequence[BaseNode]) -> adapting.DocumentReport:
        """Store nodes or documents, and return what that did; what has no text is left out.

        Raises:
            InvalidInputError: A node cannot be stored; the 64s before it are.
        """
        return self._documents().add([_input(node) for node in nodes], **self._options)

    def remove(self, ref_doc_ids: Iterable[str]) -> int:
        """Remove all notes of these documents for good, and return how many there were."""
        return self._documents().remove(sources=ref_doc_ids)

    def _documents(self) -> adapting.Documents:
        return adapting.Documents(self._door.memory, self._door.space())

    def __call__(self, nodes: Sequence[BaseNode], **_: Any) -> Sequence[BaseNode]:  # noqa: ANN401
        """Store nodes, and return them."""
        self.add(nodes)
        return nodes

    async def acall(self, nodes: Sequence[BaseNode], **_: Any) -> Sequence[BaseNode]:  # noqa: ANN401
        """Store nodes, and return them."""
        return await adapting.in_thread(partial(self, nodes))

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:  # noqa: ANN401 - LlamaIndex's signature
        """Return a different value each time: the cache of a pipeline must not skip what only the memory knows."""
        return {**super().to_dict(**kwargs), "run": uuid4().hex}


def _input(node: BaseNode) -> adapting.DocumentInput:
    """Return a node as a document of the core."""

    def related(one: Any) -> Any:  # noqa: ANN401 - JSON of one, or of several
        if isinstance(one, list):
            return [related(info) for info in one]
        return {"node_id": one.node_id, "node_type": one.node_type}

    adapting.check_names(node.metadata, NODE)
    dumped = node.model_dump(mode="json", exclude_defaults=True, include=KEPT)
    # The framework adds more to the dump of a document, such as the whole text.
    record = {name: value for name, value in dumped.items() if name in KEPT}
    record["relationships"] = {kind: related(one) for kind, one in node.relationships.items()}
    return adapting.DocumentInput(
        text=node.get_content(metadata_mode=MetadataMode.NONE),
        id=node.node_id,
        source=node.ref_doc_id or (node.node_id if isinstance(node, Document) else None),
        metadata={**node.metadata, NODE: record},
    )
