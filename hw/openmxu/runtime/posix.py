"""What only POSIX systems have, and no file is written or program run without: locks that end with their process."""

try:
    import fcntl
except ImportError as error:
    raise ImportError(
        "OpenMXU runs on Linux, and is prepared for macOS; Windows has no fcntl, so use WSL there", name="fcntl"
    ) from error

__all__ = ["fcntl"]
