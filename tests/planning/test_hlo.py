"""Operations, bytes, cycles and collectives of small programs, computed by hand."""

import pytest

from dicejax.planning.cost import cost, count_pairs
from dicejax.planning.hlo import Collective, group_size, parse, shapes


def cost_of(body, *computations, devices=1):
    """Return the cost of a program whose entry has this body."""
    head = f"HloModule step, is_scheduled=true, num_partitions={devices}"
    main = f"ENTRY %main (x: f32[]) -> f32[] {{\n{body}\n}}"
    return cost("\n\n".join([head, *computations, main]))


def test_a_dot_multiplies_and_adds():
    total = cost_of("""  %a = bf16[4,8,16]{2,1,0} parameter(0)
  %b = bf16[4,16,32]{2,1,0} parameter(1)
  ROOT %dot.1 = f32[4,8,32]{2,1,0} dot(%a, %b), lhs_batch_dims={0}, \
lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}""")
    assert total.flops == 2 * 4 * 8 * 16 * 32
    assert total.size == 2 * 4 * 8 * 16 + 2 * 4 * 16 * 32 + 4 * 4 * 8 * 32


def test_a_product_written_as_a_convolution_is_the_same():
    # [64, 32] x [32, 128], as TPUs have it, and a batch of [4]: 16 x 8 by 8 x 24,
    # whose batch is an axis in which each position pairs with one other.
    total = cost_of("""  %a = bf16[64,32]{1,0} parameter(0)
  %b = bf16[32,128]{1,0} parameter(1)
  %c = f32[64,128]{1,0} convolution(%a, %b), dim_labels=bf_io->bf
  %d = bf16[4,16,8]{2,1,0} parameter(2)
  %e = bf16[4,8,24]{2,1,0} parameter(3)
  ROOT %f = f32[4,16,24]{2,1,0} convolution(%d, %e), window={size=4 stride=3 pad=3_3 \
lhs_dilate=4 rhs_reversal=1}, dim_labels=0bf_0io->0bf""")
    assert total.flops == 2 * 64 * 32 * 128 + 2 * 4 * 16 * 8 * 24


@pytest.mark.parametrize(
    "case", [(5, 3, 3, 1, 0, 1, 1), (4, 2, 7, 1, 1, 2, 1), (6, 3, 2, 3, 2, 1, 2)]
)
def test_pairs_of_a_convolution_are_what_a_loop_counts(case):
    length, kernel, out, stride, padding, left, right = case
    count = 0
    for position in range(out):
        for step in range(kernel):
            x = position * stride + step * right - padding
            count += x % left == 0 and 0 <= x // left < length
    assert count_pairs(*case) == count


LOOP = """%body (p: (s32[], f32[10])) -> (s32[], f32[10]) {
  %p = (s32[], f32[10]{0}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %v = f32[10]{0} get-tuple-element(%p), index=1
  %w = f32[10]{0} negate(%v), backend_config={"estimated_cycles":"7"}
  %r = f32[10]{0} all-reduce(%w), channel_id=1, replica_groups={{0,1},{2,3}}
  ROOT %t = (s32[], f32[10]{0}) tuple(%i, %r)
}"""
CONDITION = """%cond (p: (s32[], f32[10])) -> pred[] {
  %p = (s32[], f32[10]{0}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %n = s32[]{:T(128)} constant(24)
  ROOT %less = pred[] compare(%i, %n), direction=LT
}"""
WHILE = """  %x = (s32[], f32[10]{0}) parameter(0)
  ROOT %w = (s32[], f32[10]{0}) while(%x), condition=%cond, body=%body"""
COUNT = ', backend_config={"known_trip_count":{"n":"3"}}'  # goes before the condition's


@pytest.mark.parametrize("body, times", [(WHILE, 24), (WHILE + COUNT, 3)])
def test_a_loop_counts_as_often_as_it_runs(body, times):
    total = cost_of(body, LOOP, CONDITION, devices=4)
    assert total.cycles == times * 7
    assert total.size == times * (80 + 80)
    assert total.by_kind() == {
        "all-reduce": {"count": times, "bytes": times * 40, "wire": times * 40}
    }


SLICED = """%fused (p.0: f32[24,1000], p.1: s32[], p.2: f32[24,1000]) -> f32[24,1000] {
  %p.0 = f32[24,1000]{1,0} parameter(0)
  %p.1 = s32[] parameter(1)
  %p.2 = f32[24,1000]{1,0} parameter(2)
  %z = s32[] constant(0)
  %s = f32[1,1000]{1,0} dynamic-slice(%p.0, %p.1, %z), dynamic_slice_sizes={1,1000}
  %n = f32[1,1000]{1,0} negate(%s)
  ROOT %u = f32[24,1000]{1,0} dynamic-update-slice(%p.2, %n, %p.1, %z)
}"""


@pytest.mark.parametrize("space, moved", [("", 4000 + 4000), ("S(1)", 4000)])
def test_a_fusion_moves_the_slices_it_reads_and_writes(space, moved):
    body = f"""  %a = f32[24,1000]{{1,0:T(8,128){space}}} parameter(0)
  %i = s32[]{{:S(6)}} parameter(1)
  %b = f32[24,1000]{{1,0}} parameter(2)
  ROOT %f = f32[24,1000]{{1,0}} fusion(%a, %i, %b), kind=kLoop, calls=%fused"""
    assert cost_of(body, SLICED).size == moved


def test_a_copy_to_the_chip_reads_once():
    total = cost_of("""  %a = f32[1000]{0} parameter(0)
  %s = (f32[1000]{0:S(1)}, f32[1000]{0}, u32[]{:S(2)}) copy-start(%a)
  ROOT %d = f32[1000]{0:S(1)} copy-done(%s)""")
    assert total.size == 4000


def test_a_kernel_counts_what_it_declares():
    call = """  %a = bf16[8,128]{1,0} parameter(0)
  ROOT %k = bf16[8,128]{1,0} custom-call(%a), custom_call_target="tpu_custom_call"\
, backend_config={"custom_call_config":{"cost_estimate":{"flops":"640",\
"bytes_accessed":"999"}}}"""
    total = cost_of(call)
    assert (total.flops, total.size) == (640, 999)
    assert cost_of(call.partition(", backend_config")[0]).size == 2 * 8 * 128 * 2


STARTED = """%begin (p: bf16[8,16]) -> bf16[8,64] {
  %p = bf16[8,16]{1,0} parameter(0)
  %g = bf16[8,64]{1,0} all-gather(%p), channel_id=5, replica_groups=[2,4]<=[8]
  ROOT %c = bf16[8,64]{1,0} custom-call(%g), custom_call_target="AsyncCollectiveStart"
}"""
CARRIED = STARTED.replace("%begin", "%end").replace("CollectiveStart", "CollectiveDone")
SCATTERED = """%all-reduce-scatter.1 (p: f32[64]) -> f32[16] {
  %p = f32[64]{0} parameter(0)
  %r = f32[64]{0} all-reduce(%p), channel_id=1, replica_groups={{0,1,2,3},{4,5,6,7}}
  %z = u32[] constant(0)
  ROOT %s = f32[16]{0} dynamic-slice(%r, %z), dynamic_slice_sizes={16}
}"""
FUSED = """  %a = bf16[8,16]{1,0} parameter(0)
  %b = f32[64]{0} parameter(1)
  %x = bf16[8,64]{1,0} fusion(%a), kind=kCustom, calls=%begin
  %y = bf16[8,64]{1,0} fusion(%a), kind=kCustom, calls=%end
  ROOT %s = f32[16]{0} fusion(%b), kind=kCustom, calls=%all-reduce-scatter.1"""


def test_fused_collectives_count_once_under_their_name():
    assert cost_of(FUSED, STARTED, CARRIED, SCATTERED, devices=8).by_kind() == {
        "all-gather": {"count": 1, "bytes": 1024, "wire": 768},
        "reduce-scatter": {"count": 1, "bytes": 256, "wire": 192},
    }


def test_the_branch_that_moves_most_counts():
    branches = [
        f"%{name} (p: f32[{n}]) -> f32[{n}] {{\n"
        f"  %p = f32[{n}]{{0}} parameter(0)\n  ROOT %n = f32[{n}]{{0}} negate(%p)\n}}"
        for name, n in (("few", 10), ("many", 1000))
    ]
    body = """  %x = s32[] parameter(0)
  %a = f32[10]{0} parameter(1)
  %b = f32[1000]{0} parameter(2)
  ROOT %c = f32[] conditional(%x, %a, %b), branch_computations={%few, %many}"""
    assert cost_of(body, *branches).size == 8000


def test_axes_of_a_mesh_may_be_split():
    text = "replica_groups=mesh['x'=8,'y'=2], device_ids=([4,2]T(1,0)) {'x':(2)4,'y'}"
    assert group_size(text, 16) == 8


def test_one_device_sends_nothing():
    assert Collective("all-reduce", 1000, 1).wire == 0
    assert Collective("collective-permute", 1000, 4).wire == 1000


def test_types_are_read_with_their_place():
    arrays = shapes("(bf16[2,3]{1,0:T(8,128)(2,1)S(1)}, (u4[8]{0}, token[]))")
    assert [array.size for array in arrays] == [12, 4, 0]
    assert [array.space for array in arrays] == [1, 0, 0]


def test_a_text_without_an_entry_is_refused():
    with pytest.raises(ValueError, match="no ENTRY"):
        parse("no HLO")
