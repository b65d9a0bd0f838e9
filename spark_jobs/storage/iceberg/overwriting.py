"""Snapshots that take files away.

pyiceberg asks one evaluator from several threads which manifests may name these files. It remembers the
manifest that it looks at, so threads mix theirs up, and now and then a file is said to be missing that is
there. Here each question has an evaluator of its own.

Still so in pyiceberg 0.12.0: `_OverwriteFiles._deleted_entries` (table/update/snapshot.py) hands manifests to
an executor, whose threads share one `_ManifestEvalVisitor` (expressions/visitors.py), and that keeps
`partition_fields` of the manifest in question. Without a public way to another evaluator, private names stay.
"""

from collections.abc import Callable

from pyiceberg.manifest import ManifestFile
from pyiceberg.table.update.snapshot import UpdateSnapshot, _OverwriteFiles


class _ThreadSafeOverwrite(_OverwriteFiles):
    def _build_manifest_evaluator(self, spec_id: int) -> Callable[[ManifestFile], bool]:
        build = super()._build_manifest_evaluator

        def may_name(manifest: ManifestFile) -> bool:
            return build(spec_id)(manifest)

        return may_name


def overwriting(update: UpdateSnapshot) -> _OverwriteFiles:
    """What `update.overwrite()` gives, safe for several manifests."""
    snapshot = update.overwrite()
    snapshot.__class__ = _ThreadSafeOverwrite
    return snapshot
