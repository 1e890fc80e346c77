"""A film of episodes, as MP4 (H.264), encoded by the ffmpeg that imageio-ffmpeg brings along."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sacbbf.disk.files import remove_quietly
from sacbbf.envs.base import Pixels
from sacbbf.errors import UsageError


def require_ffmpeg() -> Any:
    """Return the module that encodes; UsageError if it is not installed."""
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise UsageError("videos need imageio-ffmpeg: pip install 'sacbbf[video]'") from error
    return imageio_ffmpeg


def write_video(path: Path, pictures: Iterable[Pixels], rate: float) -> int:
    """Write pictures (H, W, 3) of one size, `rate` a second, and return how many; the file is whole or not there."""
    imageio_ffmpeg = require_ffmpeg()
    if path.suffix != ".mp4":
        raise UsageError(f"out = {path}: must end in .mp4")
    temporary = path.with_name(f".{path.name}.part.mp4")
    writer, count = None, 0
    try:
        for picture in pictures:
            if writer is None:
                height, width = picture.shape[:2]
                writer = imageio_ffmpeg.write_frames(
                    str(temporary), (width, height), fps=rate, quality=7, macro_block_size=2, ffmpeg_log_level="error"
                )
                writer.send(None)
            writer.send(picture)
            count += 1
        if writer is not None:
            writer.close()
            temporary.replace(path)
    except BaseException:
        if writer is not None:
            writer.close()
        remove_quietly(temporary)
        raise
    return count
