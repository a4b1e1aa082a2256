"""Fills a street with the things that stand and move on it."""

from inputs.street.furniture import Bin, Lamp, Sign, Signal, Tree
from inputs.street.people import Bicycle, Person
from inputs.street.vehicles import Bus, Car


def place(rng, road, sides):
    """The things on a street with lanes up to `road` metres from its middle; `sides` as in `scene`."""
    placed = []
    for sign, side in zip((-1, 1), sides):
        walk = abs(side.sidewalk) - road
        edge, inner = side.kerb + sign * 0.55, side.kerb + sign * walk * 0.55
        _along_the_kerb(placed, rng, sign, road)
        z = rng.uniform(5, 12)
        while z < 85:  # trees, lamps, lights and signs share the kerb
            kind = rng.rand()
            if kind < 0.4:
                placed.append(Tree(rng, side.sidewalk + sign * 0.3, z + 2))
            elif kind < 0.62:
                placed.append(Lamp(rng, edge, z))
            elif kind < 0.82:
                placed.append(Sign(rng, edge, z))
            else:
                placed.append(Signal(rng, edge, z))
            z += rng.uniform(3, 7) * (1 + z / 60)
        for _ in range(rng.randint(1, 5)):
            placed.append(Person(rng, inner + rng.uniform(-0.6, 0.6), rng.uniform(5.5, 24)))
        if rng.rand() < 0.4:
            placed.append(Bicycle(rng, inner + sign * 0.3, rng.uniform(5.5, 13), False))
        if rng.rand() < 0.3:
            placed.append(Bin(rng, edge, rng.uniform(6, 16)))
    _on_the_road(placed, rng, road)
    return placed


def _along_the_kerb(placed, rng, sign, road):
    if rng.rand() < 0.25:
        return
    z = rng.uniform(4, 12)
    while z < 70:
        if rng.rand() < 0.62:
            placed.append(Car(rng, sign * (road - 1.05), z, oncoming=sign < 0))
        z += rng.uniform(5.2, 7)


def _on_the_road(placed, rng, road):
    lane = (road - 1.0) / 2
    z = rng.uniform(7, 22)
    if rng.rand() < 0.4:
        placed.append(Bus(rng, lane * rng.choice([-1, 1]), rng.uniform(12, 28), rng.rand() < 0.5))
        z += 34
    for sign in (-1, 1):
        if rng.rand() < 0.75:
            placed.append(Car(rng, sign * lane, z + rng.uniform(0, 12), oncoming=sign < 0))
        if rng.rand() < 0.7:
            placed.append(Car(rng, sign * lane, z + rng.uniform(22, 45), oncoming=sign < 0))
    if rng.rand() < 0.45:
        placed.append(Bicycle(rng, rng.uniform(-1.5, road - 1), rng.uniform(5.5, 10), True))
    if rng.rand() < 0.4:
        placed.append(Person(rng, rng.uniform(-road, road), rng.uniform(6, 14)))
