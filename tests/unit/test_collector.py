"""When garbage is collected, and when what is free is given back."""

from app.collector import FREE_BYTES_MIN, GROWTH_BYTES_MIN, Keeper, Usage

MIB = 2**20


def test_it_is_collected_once_memory_has_grown_by_a_share_and_by_so_much() -> None:
    keeper = Keeper(Usage(60 * MIB, 0))
    assert not keeper.must_collect(Usage(60 * MIB + GROWTH_BYTES_MIN - 1, 0))
    assert keeper.must_collect(Usage(60 * MIB + GROWTH_BYTES_MIN, 0))
    assert not keeper.must_collect(Usage(60 * MIB + GROWTH_BYTES_MIN, 0))
    keeper = Keeper(Usage(1000 * MIB, 0))
    assert not keeper.must_collect(Usage(1249 * MIB, 0))
    assert keeper.must_collect(Usage(1250 * MIB, 0))


def test_growth_counts_from_the_least_there_was_since() -> None:
    keeper = Keeper(Usage(1000 * MIB, 0))
    assert not keeper.must_collect(Usage(100 * MIB, 0))
    assert keeper.must_collect(Usage(140 * MIB, 0))


def test_it_is_given_back_once_enough_was_freed() -> None:
    keeper = Keeper(Usage(0, 2 * MIB))
    assert not keeper.must_give_back(Usage(0, 2 * MIB + FREE_BYTES_MIN - 1))
    assert keeper.must_give_back(Usage(0, 2 * MIB + FREE_BYTES_MIN))


def test_what_was_given_back_is_not_given_back_again_until_it_was_used() -> None:
    keeper = Keeper(Usage(0, 0))
    assert keeper.must_give_back(Usage(0, 100 * MIB))
    assert not keeper.must_give_back(Usage(0, 100 * MIB))
    assert not keeper.must_give_back(Usage(0, 10 * MIB))  # it is used again
    assert keeper.must_give_back(Usage(0, 100 * MIB))
