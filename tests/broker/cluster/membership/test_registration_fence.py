"""Tests the registration fence. After a pause of the process it verifies the registration in
ZooKeeper, and after a lost session it waits for the controller."""

from __future__ import annotations

import asyncio

from broker.cluster.membership.registration_fence import RegistrationFence
from broker.time import Time
from tests.broker.cluster.membership.test_registration import PATH, Scene
from tests.broker.edge import eventually

SESSION_MS = 6000


async def fenced_registration(scene: Scene) -> tuple[RegistrationFence, Time]:
    """Returns the fence of a registered broker, and its clock."""
    time = Time()
    registration_fence = RegistrationFence(
        scene.zookeeper, scene.registration, PATH, SESSION_MS, time
    )
    await scene.begin()
    await scene.registration.start()
    return registration_fence, time


async def test_broker_doubts_its_registration_after_pauses_of_a_third_of_its_session_timeout() -> (
    None
):
    scene = Scene()
    registration_fence, time = await fenced_registration(scene)
    assert registration_fence.is_sure
    time.left_out_ms += 1999
    assert registration_fence.is_sure
    time.left_out_ms += 1  # The fence adds up pauses.
    assert not registration_fence.is_sure
    assert await registration_fence.until_sure(time.within(5))
    assert registration_fence.is_sure


async def test_registration_stays_confirmed_after_a_lost_connection() -> None:
    scene = Scene()
    registration_fence, _ = await fenced_registration(scene)
    scene.zookeeper.suspend()
    assert registration_fence.is_sure
    scene.zookeeper.resume()
    assert registration_fence.is_sure


async def test_wait_for_confirmed_registration_times_out_without_zookeeper() -> None:
    scene = Scene()
    registration_fence, time = await fenced_registration(scene)
    time.left_out_ms += SESSION_MS
    scene.zookeeper.suspend()
    assert not await registration_fence.until_sure(time.within(0.05))
    scene.zookeeper.resume()
    assert await registration_fence.until_sure(time.within(5))


async def test_registration_after_a_lost_session_needs_controller_confirmation() -> None:
    scene = Scene()
    registration_fence, time = await fenced_registration(scene)
    time.left_out_ms += SESSION_MS
    scene.zookeeper.suspend()
    asked = [
        asyncio.ensure_future(registration_fence.until_sure(time.within(20))) for _ in range(2)
    ]
    scene.ensemble.end_session(scene.zookeeper.session)
    scene.zookeeper.resume()
    registration_fence.confirmed()  # The request comes late from an earlier controller.
    await eventually(lambda: len(scene.epochs) == 2)
    assert not registration_fence.is_sure
    assert not any(each.done() for each in asked)
    registration_fence.confirmed()
    assert await asyncio.gather(*asked) == [True, True]
    assert registration_fence.is_sure
