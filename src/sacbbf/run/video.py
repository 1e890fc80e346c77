"""A film of episodes, as MP4 (H.264) or GIF, encoded by the ffmpeg that imageio-ffmpeg brings along."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sacbbf.disk.files import remove_quietly
from sacbbf.envs.base import Pixels
from sacbbf.errors import UsageError

# A GIF has 256 colours: those that suit the whole film.
PALETTE = "split[film][sample];[sample]palettegen[colours];[film][colours]paletteuse=dither=none"
FORMATS: dict[str, dict[str, Any]] = {
    ".mp4": {"quality": 7, "macro_block_size": 2},
    ".gif": {"codec": "gif", "pix_fmt_out": "pal8", "macro_block_size": 1, "output_params": ["-vf", PALETTE]},
}


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
    if path.suffix not in FORMATS:
        raise UsageError(f"out = {path}: must end in {' or '.join(FORMATS)}")
    temporary = path.with_name(f".{path.name}.part{path.suffix}")
    writer, count = None, 0
    try:
        for picture in pictures:
            if writer is None:
                height, width = picture.shape[:2]
                writer = imageio_ffmpeg.write_frames(
                    str(temporary), (width, height), fps=rate, ffmpeg_log_level="error", **FORMATS[path.suffix]
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
