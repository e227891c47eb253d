"""A source of one function, with helpers of its own."""

import utils

from heeler import source


@source("value string")
def PiecesOther(options, start):
    import storage

    pieces = [utils.Piece(n) for n in range(start.get("n", 0), 3)]
    return [(f"{piece.label()}, {storage.KEPT}",) for piece in pieces], {"n": 3}
