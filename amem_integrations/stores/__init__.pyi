from .bm25 import Bm25 as Bm25
from .folder import FolderStore as FolderStore
from .server import ServerStore as ServerStore
