from .folder import FolderStore as FolderStore
from .server import ServerStore as ServerStore
