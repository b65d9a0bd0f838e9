"""One piece of an object into rows: from its boundary if that is known, else from the best guess."""

from dataclasses import dataclass

from spark_jobs.indexing.damage import Damage
from spark_jobs.indexing.index_file import IndexFile
from spark_jobs.indexing.piece import Piece
from spark_jobs.indexing.synchronise import Searcher
from spark_jobs.indexing.walk import WalkLimits, walk
from spark_jobs.indexing.window import StagedBytes, Unreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Rows cover the object from `first` to `end`; `lost_at` is where the walk lost its way, if it did."""

    first: int | None
    end: int
    lost_at: int | None = None


_NOTHING = Extent(first=None, end=0)


def scan_piece(staged: StagedBytes, piece: Piece, file: IndexFile, limits: WalkLimits) -> Extent:
    """Adds the rows of `piece` to `file`, which holds nothing else if the boundary has to be guessed."""
    if piece.boundary is not None:
        return _scan_from(staged, piece, piece.boundary, file, limits)
    try:
        return _scan_from_guess(staged, piece, file, limits)
    except Unreadable:
        return _NOTHING  # the piece before says so, and then its reader decides what becomes of this one


def _scan_from(
    staged: StagedBytes, piece: Piece, boundary: int, file: IndexFile, limits: WalkLimits
) -> Extent:
    """An object that cannot be read on is lost from there on, like one that cannot be understood."""
    end = boundary
    try:
        for stretch in walk(staged, start=boundary, stop=piece.stop, limits=limits):
            file.add(piece.object_order, stretch)
            end = stretch.end
            if stretch.damage is not None and stretch.damage.lost:
                return Extent(first=boundary, end=end, lost_at=stretch.damage.position)
    except Unreadable as error:
        rest = Damage(position=end, size=staged.size - end, reason=str(error), lost=True)
        file.add_damage(piece.object_order, rest)
        return Extent(first=boundary, end=staged.size, lost_at=end)
    return Extent(first=boundary, end=end)


def _scan_from_guess(staged: StagedBytes, piece: Piece, file: IndexFile, limits: WalkLimits) -> Extent:
    """A walk that loses its way began inside a record, if a later guess does better; so try the later one."""
    searcher = Searcher(staged, start=piece.start, stop=piece.stop, limits=limits)
    extent = _NOTHING
    boundary = searcher.next_boundary(piece.start)
    while boundary is not None:
        file.restart()
        extent = _scan_from(staged, piece, boundary, file, limits)
        boundary = None if extent.lost_at is None else searcher.next_boundary(extent.lost_at + 1)
    return extent
