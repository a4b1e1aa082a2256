"""Fills a street with the things that stand and move on it."""

from inputs.street.furniture import Bin, Lamp, Sign, Signal, Tree
from inputs.street.people import Bicycle, Person
from inputs.street.vehicles import Bus, Car


def place(rng, road, sides):
    """The things on a street with lanes up to `road` metres from its middle; `sides` as in `scene`."""
    placed = []
    for sign, side in zip((-1, 1), sides):
        edge = side.kerb + sign * 0.45
        _along_the_kerb(placed, rng, sign, road)
        z = rng.uniform(6.5, 11)
        while (
            z < 70
        ):  # trees, lamps, lights and signs share the kerb; far away only trees are large enough to be told apart
            kind = rng.rand() if z < 32 else 0.0
            if kind < 0.3:
                placed.append(Tree(rng, side.sidewalk + sign * rng.uniform(0.2, 0.8), z + 2))
            elif kind < 0.53:
                placed.append(Lamp(rng, edge, z))
            elif kind < 0.77:
                placed.append(Sign(rng, edge, z))
            else:
                placed.append(Signal(rng, edge, z))
            z += rng.uniform(3, 6.5) * (1 + z / 60)
        walk = abs(side.facade - side.sidewalk)
        for _ in range(rng.randint(1, 5)):
            placed.append(
                Person(rng, side.sidewalk + sign * walk * rng.uniform(0.1, 0.6), rng.uniform(7, 17))
            )
        if rng.rand() < 0.4:
            placed.append(Bicycle(rng, side.sidewalk + sign * 0.7, rng.uniform(7, 13), False))
        if rng.rand() < 0.3:
            placed.append(Bin(rng, side.sidewalk + sign * 0.4, rng.uniform(7, 16)))
    _on_the_road(placed, rng, road)
    return placed


def _along_the_kerb(placed, rng, sign, road):
    if rng.rand() < 0.3:
        return
    z = rng.uniform(5, 14)
    while z < 70:
        if rng.rand() < 0.55:
            placed.append(Car(rng, sign * (road - 0.8), z, oncoming=sign < 0))
        z += rng.uniform(5.2, 7)


def _on_the_road(placed, rng, road):
    lane = road / 2 - 0.6
    z = rng.uniform(7, 22)
    if rng.rand() < 0.4:
        placed.append(Bus(rng, lane * rng.choice([-1, 1]), rng.uniform(12, 28), rng.rand() < 0.5))
        z += 34
    for sign in (-1, 1):
        if rng.rand() < 0.75:
            placed.append(Car(rng, sign * lane, z + rng.uniform(0, 12), oncoming=sign < 0))
        if rng.rand() < 0.7:
            placed.append(Car(rng, sign * lane, z + rng.uniform(22, 45), oncoming=sign < 0))
    for _ in range(rng.choice(3, p=(0.35, 0.5, 0.15))):
        placed.append(Bicycle(rng, rng.uniform(-2.5, road - 0.6), rng.uniform(6, 9.5), True))
    for _ in range(rng.randint(0, 3)):
        placed.append(Person(rng, rng.uniform(-road, road), rng.uniform(6.5, 13)))
