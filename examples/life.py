"""Conway's Game of Life on a torus, each rank with a part of the board and its neighbours' cells in view.

    pip install 'nearfield[halo]' pillow
    mpirun -n 4 python life.py --size 512 --steps 200 --frames frames/

--check compares the last board with a run on one rank.
"""

import argparse
from pathlib import Path

import numpy as np
from mpi4py import MPI

from nearfield.halo import Grid


def step(now: np.ndarray, after: np.ndarray) -> None:
    """Writes the next generation of `now`, which has one ghost cell on each side, into `after`, which has none."""
    rows, columns = after.shape
    alive = sum(now[i : i + rows, j : j + columns] for i in range(3) for j in range(3) if (i, j) != (1, 1))
    after[...] = (alive == 3) | ((now[1:-1, 1:-1] == 1) & (alive == 2))


def play(size: int, steps: int, seed: int, frames: Path | None) -> np.ndarray | None:
    """Plays `steps` generations. Returns the last board on rank 0, None on other ranks."""
    start = first_board(size, seed)
    with Grid((size, size), halo=1, periodic=True) as grid:
        now, after = grid.field(np.uint8), grid.field(np.uint8)
        (i, j), (m, n) = grid.start_cell, grid.count
        now.own[...] = start[i : i + m, j : j + n]
        grid.exchange(now)
        for number in range(steps):
            if frames and number % 10 == 0:
                save(gathered(grid, now.own), frames / f"{number:05}.png")
            step(now.all, after.own)
            grid.exchange(after)
            now, after = after, now
        return gathered(grid, now.own)


def first_board(size: int, seed: int) -> np.ndarray:
    return (np.random.default_rng(seed).random((size, size)) < 0.3).astype(np.uint8)


def gathered(grid: Grid, own: np.ndarray) -> np.ndarray | None:
    parts = MPI.COMM_WORLD.gather((grid.start_cell, own.copy()))
    if parts is None:
        return None
    board = np.zeros(grid.extents, np.uint8)
    for (i, j), part in parts:
        board[i : i + part.shape[0], j : j + part.shape[1]] = part
    return board


def save(board: np.ndarray | None, file: Path) -> None:
    if board is not None:
        from PIL import Image

        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(255 * (1 - board)).save(file)


def serial(size: int, steps: int, seed: int) -> np.ndarray:
    board = first_board(size, seed)
    for _ in range(steps):
        after = np.empty_like(board)
        step(np.pad(board, 1, mode="wrap"), after)
        board = after
    return board


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=256, help="rows and columns of the board")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--frames", type=Path, help="folder for a PNG of every tenth step")
    parser.add_argument("--check", action="store_true", help="compare with a serial run")
    options = parser.parse_args()
    board = play(options.size, options.steps, options.seed, options.frames)
    if board is None:
        return
    print(f"{int(board.sum())} cells live after {options.steps} steps on {MPI.COMM_WORLD.size} ranks")
    if options.check:
        right = np.array_equal(board, serial(options.size, options.steps, options.seed))
        print("as on one rank" if right else "NOT as on one rank")
        if not right:
            MPI.COMM_WORLD.Abort(1)


if __name__ == "__main__":
    main()
