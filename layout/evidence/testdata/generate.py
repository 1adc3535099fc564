#!/usr/bin/env python3
"""Writes the logs and traces of this folder: python3 generate.py

No file here was recorded on a GPU. Each line has the form that its framework prints, with the format strings of the
sources named beside it; the figures are made up, or are moeplan's own predictions off by the percentage given. Numbers
come from a fixed seed, so running it again changes nothing.
"""

import gzip
import json
import os
import random
import sqlite3

MIB, GB = 2**20, 1e9


def header(text):
    return [f"# Made by layout/evidence/testdata/generate.py, not recorded. {text}"]


def memory(rank, it, peak, after, release="0.20", extra=""):
    """NVIDIA/Megatron-LM d98e8a64dd common_utils.py:306, core_v0.15.3 the same with full floats;
    Megatron-Bridge 067f987df train_utils.py:1146."""
    f = lambda b: f"{b / MIB:.2f}" if release >= "0.16" else f"{b / MIB}"
    if release == "bridge":
        g = lambda b: float(f"{b / GB:.5g}")
        return (f"[Rank {rank}] (after {it} iterations) memory (GB) | mem-allocated-gigabytes: {g(after)} | mem-active-gigabytes: {g(after)}"
                f" | mem-inactive-gigabytes: 0.1 | mem-reserved-gigabytes: {g(peak * 1.05)} | mem-max-allocated-gigabytes: {g(peak)}"
                f" | mem-max-active-gigabytes: {g(peak)} | mem-max-inactive-gigabytes: 0.9 | mem-max-reserved-gigabytes: {g(peak * 1.06)}"
                f" | mem-alloc-retires: 0 | mem-allocated-count: 1234")
    return (f"[Rank {rank}] (after {it} iterations) memory (MB) | allocated: {f(after)} | max allocated: {f(peak)}"
            f" | reserved: {f(peak * 1.05)} | max reserved: {f(peak * 1.06)}{extra}")


def iteration(it, of, ms, tflops, gbs, loss, norm, release="0.20", skipped=0, nan=0, moe=False):
    """NVIDIA/Megatron-LM d98e8a64dd training.py, training_log; core_v0.11.0 training.py:1058-1101."""
    stamp = f"2026-08-22 10:{it // 60:02d}:{it % 60:02d}" + (".000000" if release >= "0.16" and release != "bridge" else "")
    s = f" [{stamp}] iteration {it:8d}/{of:8d} | consumed samples: {it * gbs:12d} | elapsed time per iteration (ms): {ms:.1f} |"
    if tflops:
        s += f" throughput per GPU (TFLOP/s/GPU): {tflops:.1f} |"
    s += f" learning rate: {1e-4:.6E} | global batch size: {gbs:5d} |"
    if loss is not None:
        s += f" lm loss: {loss:.6E} |"
    if moe:
        s += " load_balancing_loss: 1.00 |" if release >= "0.18" else f" load_balancing_loss: {1.0:.6E} |"
    return s + f" loss scale: 1.0 | grad norm: {norm:.3f} | number of skipped iterations: {skipped:3d} | number of nan iterations: {nan:3d} |"


def arguments(**args):
    """arguments.py:1990"""
    out = ["------------------------ arguments ------------------------"]
    out += [f"  {k} {'.' * (48 - len(k))} {v}" for k, v in sorted(args.items())]
    return out + ["-------------------- end of arguments ---------------------"]


QWEN = dict(world_size=256, tensor_model_parallel_size=2, context_parallel_size=1, pipeline_model_parallel_size=8,
            virtual_pipeline_model_parallel_size=6, expert_model_parallel_size=32, expert_tensor_parallel_size=1, num_layers=94,
            hidden_size=4096, num_experts=128, seq_length=4096, micro_batch_size=1, recompute_granularity="selective")


def write(name, lines):
    text = "\n".join(lines) + "\n"
    if name.endswith(".gz"):
        with open(name, "wb") as f, gzip.GzipFile(fileobj=f, mode="wb", mtime=0) as z:
            z.write(text.encode())
    else:
        with open(name, "w", newline="") as f:
            f.write(text)


def fake(name, off):
    """A check of qwen3-235b on 256 H100 (the README's first plan): ranks 0 and 224, one after another."""
    peaks = {0: (66162274560, 21615571200), 224: (54298365824, 19333521280)}  # moeplan's predictions of stages 0 and 7
    lines = header(f"Fake run of moeplan's check; peaks are moeplan's predictions times {off}.")
    for rank, (peak, after) in peaks.items():
        peak, after = int(peak * off), int(after * off)
        lines += arguments(rank=rank, fake_process_group=True, mock_data=True, global_batch_size=768, padded_vocab_size=151936, **QWEN)
        lines += [f" > number of parameters on (tensor, gtp_weight_remat, pipeline) model parallel rank (0, 0, {rank // 32}): {PARAMS[rank]}"]
        for it in (1, 2, 3):
            lines += [iteration(it, 3, 900.0 + it, 0, 768, None, float("nan"), nan=it, moe=True)]
            lines += [memory(rank, it, peak if it > 1 else peak - 9 * 2**30, after)]
    write(name, lines)


PARAMS = {0: 1651346432, 224: 1427986944}


def main():
    rng = random.Random(20260822)
    fake("fake-agrees.log", 1.01)
    fake("fake-deviates.log", 1.09)

    lines = header("Core 0.11: whole floats, one report, lines of two pipeline ranks.")
    lines += [" > number of parameters on (tensor, pipeline) model parallel rank (0, 0): 1000", "setting training iterations to 10",
              iteration(1, 10, 2000.0, 210.5, 64, 11.2, 3.1, "0.11"), memory(0, 1, 41234567890, 20234567890, "0.11"),
              memory(16, 1, 31234567890, 10234567890, "0.11"),
              "Theoretical memory footprints: weight and optimizer=12345.67 MB",
              iteration(2, 10, 1000.0, 421.0, 64, 10.9, 3.0, "0.11")]
    write("core-0.11.log", lines)

    lines = header("Core 0.20 on 8 GPUs through torchrun --tee, srun --label, colours and a progress bar.")
    lines += ["> Megatron-Core version .......... 0.20.0", "\x1b[32m> Transformer Engine version ... 2.12.0\x1b[0m"]
    for it in range(1, 4):
        lines += [f"\rloading {it}/3 \rloading done \r0:\x1b[1m" + iteration(it, 3, 500.0, 400.0, 64, 10.0 - it, 1.0) + "\x1b[0m"]
        lines += [f"{r}: " + memory(r, it, (30 + r) * 2**30, 20 * 2**30, extra=" | total device memory used: 40960.00") for r in range(2)]
    lines += [memory(0, 4, 33 * 2**30, 20 * 2**30) + memory(4, 4, 34 * 2**30, 20 * 2**30)]
    write("core-0.20.log", lines)

    lines = header("Megatron-Bridge 0.6: GB of 1e9 with five digits, Step Time of rank 0.")
    for it in range(1, 9):
        lines += [f"Step Time : 12.{it:02d}s GPU utilization: 512.{it}MODEL_TFLOP/s/GPU",
                  iteration(it, 8, 12000.0 + 10 * it, 512.0, 2048, 12 - it / 2, 2.0, "bridge")]
        if it < 3:
            lines += [memory(0, it, 61234567890, 31234567890, "bridge")]
    write("bridge.log.gz", lines)

    oom = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 79.15 GiB of which"
           " 147.75 MiB is free. Process 483452 has 78.98 GiB memory in use. Of the allocated memory 78.17 GiB is allocated by PyTorch,"
           " and 13.03 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting"
           " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.")
    lines = header("Out of memory on two ranks (message of PyTorch 2.6) and in NCCL.")
    lines += arguments(**QWEN)
    lines += [iteration(1, 50, 9000.0, 100.0, 2048, 12.0, 5.0), "[rank1]: Traceback (most recent call last):", "[rank1]:   File \"pretrain_gpt.py\", line 1",
              "[rank1]: " + oom, "[rank33]: " + oom.replace("78.17 GiB is", "60.17 GiB is"), "[rank1]: " + oom,
              "node1:123:456 [0] transport.cc:1 NCCL WARN Cuda failure 2 'out of memory'"]
    write("oom.log", lines)

    def run(name, ms, release="0.20", n=60, change={}, bad={}, tail=()):
        lines = header("An A/B pair: 60 steps, spread 0.5 %, step time as named.")
        args = dict(QWEN, global_batch_size=2048, moe_token_dispatcher_type="alltoall", overlap_moe_expert_parallel_comm=False,
                    profile=False, fake_process_group=False, bf16=True, mock_data=False, save="/ckpt", rank=0)
        args.update(change)
        lines += arguments(**args)
        for it in range(1, n + 1):
            t = ms * (1 + rng.gauss(0, 0.005)) * (3 if it == 1 else 1.2 if it == 2 else 1)
            loss = None if it in bad.get("nan", ()) else 12 - it / 20
            lines += [iteration(it, n, t, 2e6 / t, 2048, loss, 1.5, release, skipped=int(it in bad.get("skip", ())), nan=int(it in bad.get("nan", ())), moe=True)]
            if it < 3:
                lines += [memory(r * 32, it, (62 - r) * 2**30, 20 * 2**30) for r in range(8)]
            if it == 30:
                lines += ["  [2026-08-22 10:00:30.000000] successfully saved checkpoint from iteration      30 to /ckpt [ t 1/2, gtp_remat 1/1, p 1/8 ]"]
        write(name, lines + list(tail))

    run("base.log", 16000.0)
    run("faster.log", 14000.0, change=dict(moe_token_dispatcher_type="flex", moe_flex_dispatcher_backend="deepep"))
    run("same.log", 16030.0, change=dict(moe_token_dispatcher_type="flex", moe_flex_dispatcher_backend="deepep"))
    run("two-changes.log", 14000.0, change=dict(moe_token_dispatcher_type="flex", moe_flex_dispatcher_backend="deepep", overlap_moe_expert_parallel_comm=True))
    run("short.log", 14000.0, n=12, change=dict(moe_token_dispatcher_type="flex", moe_flex_dispatcher_backend="deepep"))
    run("nan.log", 14000.0, bad=dict(nan=(40,), skip=(41,)), change=dict(moe_token_dispatcher_type="flex", moe_flex_dispatcher_backend="deepep"))
    trace("trace.json.gz")
    trace("trace-deepep.json.gz", deepep=True)
    trace("trace-unnamed.jsonl.gz", jsonlines=True, named=False)
    export("nsys.sqlite")
    run("profiled.log", 14000.0, n=12, change=dict(profile=True))


def trace(name, steps=2, jsonlines=False, named=True, deepep=False):
    """A rank of 16: kernels of 100 us on the compute stream, an all-to-all of 150 us beside every second, of which 50 us hang
    over, a hop to the next stage after each step, and 40 us without work before it.  Events as pytorch/kineto's
    output_json.cpp writes them; groups as Megatron's parallel_state.py describes them."""
    ev, t, corr = [], 1000.125, 1

    def kernel(name, ts, dur, stream, launched, **args):
        nonlocal corr
        corr += 1
        ev.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 4242, "tid": 1, "ts": launched, "dur": 5,
                   "args": {"External id": corr, "cbid": 211, "correlation": corr}})
        ev.append({"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": ts, "dur": dur,
                   "args": {"External id": corr, "queued": 0, "device": 0, "context": 1, "stream": stream, "correlation": corr,
                            "registers per thread": 32, "grid": [1, 1, 1], "block": [512, 1, 1], **args}})

    group = lambda g, d, op: ({"Collective name": op, "Group size": 8, "Process Group Name": g,
                               **({"Process Group Description": d} if named else {})})
    for step in range(steps):
        ev.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step + 5}", "pid": 4242, "tid": 1, "ts": t - 10, "dur": 1300,
                   "args": {}})
        for layer in range(4):
            kernel("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_NNT", t, 100, 7, t - 50)
            if deepep:
                kernel("void deep_ep::internode::dispatch<...>(int4*, float*, int*, long*)", t + 50, 100, 20, t - 40)
                kernel("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", t, 100, 23, t - 45,
                       **group("40", "DATA_PARALLEL_GROUP_WITH_CP", "_reduce_scatter_base"))
            else:
                kernel("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", t + 50, 100, 20, t - 40,
                       **group("31", "EXPERT_MODEL_PARALLEL_GROUP", "all_to_allv"))
            t += 150
            kernel("void cutlass::device_kernel<gemm_e4m3_grouped>", t, 100, 7, t - 30)
            t += 100
        kernel("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", t, 50, 22, t - 20, **group("9", "PIPELINE_MODEL_PARALLEL_GROUP", "send"))
        t += 50 + 40  # the next kernel is launched 10 us before it starts: 35 us of the gap are the host's
        ev.append({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 4242, "tid": 1, "ts": t, "dur": 3, "args": {"Sequence number": 1}})
        kernel("void at::native::vectorized_elementwise_kernel<4>", t, 10, 7, t - 10)
        t += 10
    head = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85021163520, "numSms": 132}],
            "madeBy": "layout/evidence/testdata/generate.py, not recorded",
            "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 16, "pg_count": 2, "pg_config": [
                {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": 16, "ranks": list(range(16))},
                {"pg_name": "31", "pg_desc": "EXPERT_MODEL_PARALLEL_GROUP", "backend_config": "cuda:nccl", "pg_size": 8, "ranks": list(range(8))}]}}
    if jsonlines:
        write(name, [json.dumps(e) for e in ev])
        return
    body = json.dumps({**head, "traceEvents": ev, "traceName": name}, indent=1).replace('"queued": 0,', '"queued": ,')  # kineto leaves values out
    write(name, [body])



def export(name):
    """The run of trace.json.gz as "nsys export --type sqlite" writes it: without process groups, but with NVTX ranges around
    the calls. Tables and columns as NVIDIA's SQLite Export Schema Reference lists them (2021.5, and later versions' globalPid,
    graphNodeId, endGlobalTid); ids of threads are its serialised ones."""
    if os.path.exists(name):
        os.remove(name)
    db = sqlite3.connect(name)
    db.executescript("""
        CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
        CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
        CREATE TABLE TARGET_INFO_GPU (vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT NOT NULL, busLocation TEXT, totalMemory INTEGER, smCount INTEGER);
        CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL, uuid TEXT, numMultiprocessors INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
            streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (
            start                       INTEGER   NOT NULL,                    -- ns
            end                         INTEGER   NOT NULL,
            deviceId                    INTEGER   NOT NULL,
            contextId                   INTEGER   NOT NULL,
            greenContextId              INTEGER,
            streamId                    INTEGER   NOT NULL,
            correlationId               INTEGER,
            globalPid                   INTEGER,
            demangledName               INTEGER   NOT NULL,                    -- REFERENCES StringIds(id)
            shortName                   INTEGER   NOT NULL,
            gridX                       INTEGER   NOT NULL,
            graphNodeId                 INTEGER
        );
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER,
            correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
        CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER, color INTEGER,
            text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);
    """)
    ids = {}
    process = (1 << 48) | (4242 << 24)
    t, corr = 1000125, 1

    def string(value):
        if value not in ids:
            ids[value] = len(ids) + 1
            db.execute("INSERT INTO StringIds VALUES (?, ?)", (ids[value], value))
        return ids[value]

    def kernel(full, ts, us, stream, launched, around=None):
        nonlocal corr
        corr += 1
        short = full.split("(")[0].split("<")[0].split("::")[-1]
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, ?, 0, NULL)",
                   (launched, launched + 5000, process | 4243, corr, string("cudaLaunchKernel_v7000")))
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 1, NULL, ?, ?, ?, ?, ?, 1, NULL)",
                   (ts, ts + us * 1000, stream, corr, process, string(full), string(short)))
        if around:
            text, registered = around
            db.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, NULL, NULL, NULL, ?, ?, NULL, ?, 0)",
                       (launched - 1000, launched + 6000, None if registered else text, process | 4243, string(text) if registered else None))

    for step in range(2):
        db.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, NULL, NULL, NULL, ?, ?, NULL, NULL, 0)", (t - 60000, t + 1200000, f"step {step}", process | 4243))
        for layer in range(4):
            kernel("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_NNT", t, 100, 7, t - 50000)
            kernel("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", t + 50000, 100, 20, t - 40000,
                   ("moe_combine" if layer % 2 else "moe_dispatch", layer < 2))
            t += 150000
            kernel("void cutlass::device_kernel<gemm_e4m3_grouped>", t, 100, 7, t - 30000)
            t += 100000
        kernel("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", t, 50, 22, t - 20000, ("send_forward", False))
        t += 90000
        kernel("void at::native::vectorized_elementwise_kernel<4>", t, 10, 7, t - 10000)
        t += 10000
    db.execute("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_MADE_BY', 'layout/evidence/testdata/generate.py, not recorded')")
    db.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, 0, 'NVIDIA H100 80GB HBM3', '0000:1b:00.0', 85021163520, 132)")
    db.execute("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (0, 0, 4242, NULL, 132)")
    db.commit()
    db.execute("VACUUM")
    db.close()


if __name__ == "__main__":
    main()
