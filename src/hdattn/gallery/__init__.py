"""The gallery: static pages of the figures that lie on disk, without network or server."""

from hdattn.gallery.write import CAPTIONS, summary_lines, write_gallery

__all__ = ["CAPTIONS", "summary_lines", "write_gallery"]
