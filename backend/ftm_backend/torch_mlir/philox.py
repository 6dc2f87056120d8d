"""Philox4x32-10 in upstream's dialects, written from its definition.

Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
"""

from __future__ import annotations

NAME = "philox"
"""Name of the function that computes one word from its index in the stream, seed and offset."""

TEXT = f"""
func.func private @{NAME}(%index: i64, %seed: i64, %offset: i64) -> i32 {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c10 = arith.constant 10 : index
  %shift = arith.constant 32 : i64
  %two = arith.constant 2 : i64
  %three = arith.constant 3 : i64
  %m0 = arith.constant 3528531795 : i64
  %m1 = arith.constant 3449720151 : i64
  %w0 = arith.constant 2654435769 : i64
  %w1 = arith.constant 3144134277 : i64
  %mask = arith.constant 4294967295 : i64
  %block = arith.shrui %index, %two : i64
  %x0 = arith.andi %block, %mask : i64
  %x1 = arith.shrui %block, %shift : i64
  %x2 = arith.andi %offset, %mask : i64
  %x3 = arith.shrui %offset, %shift : i64
  %s0 = arith.andi %seed, %mask : i64
  %s1 = arith.shrui %seed, %shift : i64
  %r:6 = scf.for %i = %c0 to %c10 step %c1
      iter_args(%a = %x0, %b = %x1, %c = %x2, %d = %x3, %k0 = %s0, %k1 = %s1)
      -> (i64, i64, i64, i64, i64, i64) {{
    %p0 = arith.muli %a, %m0 : i64
    %p1 = arith.muli %c, %m1 : i64
    %h0 = arith.shrui %p0, %shift : i64
    %l0 = arith.andi %p0, %mask : i64
    %h1 = arith.shrui %p1, %shift : i64
    %l1 = arith.andi %p1, %mask : i64
    %e0 = arith.xori %h1, %b : i64
    %n0 = arith.xori %e0, %k0 : i64
    %e2 = arith.xori %h0, %d : i64
    %n2 = arith.xori %e2, %k1 : i64
    %q0 = arith.addi %k0, %w0 : i64
    %q1 = arith.addi %k1, %w1 : i64
    %t0 = arith.andi %q0, %mask : i64
    %t1 = arith.andi %q1, %mask : i64
    scf.yield %n0, %l1, %n2, %l0, %t0, %t1 : i64, i64, i64, i64, i64, i64
  }}
  %word = arith.andi %index, %three : i64
  %one = arith.constant 1 : i64
  %zero = arith.constant 0 : i64
  %is0 = arith.cmpi eq, %word, %zero : i64
  %is1 = arith.cmpi eq, %word, %one : i64
  %is2 = arith.cmpi eq, %word, %two : i64
  %v23 = arith.select %is2, %r#2, %r#3 : i64
  %v123 = arith.select %is1, %r#1, %v23 : i64
  %v = arith.select %is0, %r#0, %v123 : i64
  %bits = arith.trunci %v : i64 to i32
  return %bits : i32
}}
"""
