#include "textflag.h"

// Exponentials of 16 values at a time; simd_amd64.go describes the kernels.

DATA expLow<>+0(SB)/4, $-87.3       // below, 2^n would not be a normal number
DATA expHigh<>+0(SB)/4, $88.3       // above, it would be infinite
DATA expLog2e<>+0(SB)/4, $1.4426950408889634
DATA expLn2<>+0(SB)/4, $0x3f317200  // upper bits of ln 2: n times it is exact
DATA expLn2Rest<>+0(SB)/4, $0x35bfbe8e
DATA expC7<>+0(SB)/4, $0.0001984126984126984
DATA expC6<>+0(SB)/4, $0.001388888888888889
DATA expC5<>+0(SB)/4, $0.008333333333333333
DATA expC4<>+0(SB)/4, $0.041666666666666664
DATA expC3<>+0(SB)/4, $0.16666666666666666
DATA expC2<>+0(SB)/4, $0.5
DATA expOne<>+0(SB)/4, $1.0
GLOBL expLow<>(SB), RODATA|NOPTR, $4
GLOBL expHigh<>(SB), RODATA|NOPTR, $4
GLOBL expLog2e<>(SB), RODATA|NOPTR, $4
GLOBL expLn2<>(SB), RODATA|NOPTR, $4
GLOBL expLn2Rest<>(SB), RODATA|NOPTR, $4
GLOBL expC7<>(SB), RODATA|NOPTR, $4
GLOBL expC6<>(SB), RODATA|NOPTR, $4
GLOBL expC5<>(SB), RODATA|NOPTR, $4
GLOBL expC4<>(SB), RODATA|NOPTR, $4
GLOBL expC3<>(SB), RODATA|NOPTR, $4
GLOBL expC2<>(SB), RODATA|NOPTR, $4
GLOBL expOne<>(SB), RODATA|NOPTR, $4

// CONSTANTS keeps all of them in Z16 to Z27.
#define CONSTANTS \
	VBROADCASTSS expLow<>(SB), Z16 \
	VBROADCASTSS expHigh<>(SB), Z17 \
	VBROADCASTSS expLog2e<>(SB), Z18 \
	VBROADCASTSS expLn2<>(SB), Z19 \
	VBROADCASTSS expLn2Rest<>(SB), Z20 \
	VBROADCASTSS expC7<>(SB), Z21 \
	VBROADCASTSS expC6<>(SB), Z22 \
	VBROADCASTSS expC5<>(SB), Z23 \
	VBROADCASTSS expC4<>(SB), Z24 \
	VBROADCASTSS expC3<>(SB), Z25 \
	VBROADCASTSS expC2<>(SB), Z26 \
	VBROADCASTSS expOne<>(SB), Z27

// EXP replaces Z0 by its exponential: 2^n times the series of e^r to the 7th power, with n the nearest whole number to
// Z0 / ln 2 and r the rest. What is not a number stays so: the bounds come first in MAX and MIN.
#define EXP \
	VMAXPS Z0, Z16, Z0 \
	VMINPS Z0, Z17, Z0 \
	VMULPS Z18, Z0, Z1 \
	VRNDSCALEPS $0, Z1, Z1 \
	VFNMADD231PS Z19, Z1, Z0 \
	VFNMADD231PS Z20, Z1, Z0 \
	VMOVAPS Z21, Z2 \
	VFMADD213PS Z22, Z0, Z2 \
	VFMADD213PS Z23, Z0, Z2 \
	VFMADD213PS Z24, Z0, Z2 \
	VFMADD213PS Z25, Z0, Z2 \
	VFMADD213PS Z26, Z0, Z2 \
	VFMADD213PS Z27, Z0, Z2 \
	VFMADD213PS Z27, Z0, Z2 \
	VSCALEFPS Z1, Z2, Z0

// func maxAVX512(n int, x *float32) float32
TEXT ·maxAVX512(SB), NOSPLIT, $0-20
	MOVQ n+0(FP), AX
	MOVQ x+8(FP), SI
	VMOVUPS (SI), Z0
	JMP next
loop:
	VMAXPS (SI), Z0, Z0
next:
	ADDQ $64, SI
	SUBQ $16, AX
	JG loop
	VEXTRACTF64X4 $1, Z0, Y1
	VMAXPS Y1, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VMAXPS X1, X0, X0
	VPERMILPS $0x4e, X0, X1
	VMAXPS X1, X0, X0
	VPERMILPS $0xb1, X0, X1
	VMAXPS X1, X0, X0
	VMOVSS X0, ret+16(FP)
	VZEROUPPER
	RET

// func expAVX512(n int, x *float32, shift float32) float32
TEXT ·expAVX512(SB), NOSPLIT, $0-28
	MOVQ n+0(FP), AX
	MOVQ x+8(FP), SI
	VBROADCASTSS shift+16(FP), Z28
	CONSTANTS
	VPXORD Z3, Z3, Z3
loop:
	VMOVUPS (SI), Z0
	VSUBPS Z28, Z0, Z0
	EXP
	VADDPS Z0, Z3, Z3
	VMOVUPS Z0, (SI)
	ADDQ $64, SI
	SUBQ $16, AX
	JG loop
	VEXTRACTF64X4 $1, Z3, Y1
	VADDPS Y1, Y3, Y0
	VEXTRACTF128 $1, Y0, X1
	VADDPS X1, X0, X0
	VHADDPS X0, X0, X0
	VHADDPS X0, X0, X0
	VMOVSS X0, ret+24(FP)
	VZEROUPPER
	RET

// func swigluAVX512(n int, gate, up, dst *float32)
TEXT ·swigluAVX512(SB), NOSPLIT, $0-32
	MOVQ n+0(FP), AX
	MOVQ gate+8(FP), SI
	MOVQ up+16(FP), DI
	MOVQ dst+24(FP), DX
	CONSTANTS
	VPXORD Z5, Z5, Z5
loop:
	VMOVUPS (SI), Z4
	VSUBPS Z4, Z5, Z0
	EXP
	VADDPS Z27, Z0, Z0
	VDIVPS Z0, Z4, Z0
	VMULPS (DI), Z0, Z0
	VMOVUPS Z0, (DX)
	ADDQ $64, SI
	ADDQ $64, DI
	ADDQ $64, DX
	SUBQ $16, AX
	JG loop
	VZEROUPPER
	RET
