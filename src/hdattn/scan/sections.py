"""What a scan may be: a section under ``scans`` of the configuration."""

from __future__ import annotations

from hdattn.scan.multihead import MultiHeadScan
from hdattn.scan.singlehead import SingleHeadScan

Scan = SingleHeadScan | MultiHeadScan
SCANS: dict[str, type[Scan]] = {"singlehead": SingleHeadScan, "multihead": MultiHeadScan}
