#include "textflag.h"

// Dot products; simd_amd64.go describes them.
//
// Four columns (rows of w) of up to six rows of x stay in registers; lanes are added up at the end, four columns at once.

// ARGS loads the arguments: AX count, SI x, R8 its stride, DI w, R11 its stride, DX y, R13 its stride, all in bytes,
// and BX add; R9 and R12 are three strides of x and of w, R10 five of x, and CX is four columns behind DI.
#define ARGS \
	MOVQ n+0(FP), AX \
	MOVQ x+8(FP), SI \
	MOVQ ldx+16(FP), R8 \
	MOVQ w+24(FP), DI \
	MOVQ ldw+32(FP), R11 \
	MOVQ y+40(FP), DX \
	MOVQ ldy+48(FP), R13 \
	SHLQ $2, R8 \
	SHLQ $2, R11 \
	SHLQ $2, R13 \
	LEAQ (R8)(R8*2), R9 \
	LEAQ (R8)(R8*4), R10 \
	LEAQ (R11)(R11*2), R12 \
	MOVQ add+56(FP), BX \
	LEAQ (DI)(R11*4), CX

#define ZERO512(a, b, c, d) \
	VPXORD a, a, a \
	VPXORD b, b, b \
	VPXORD c, c, c \
	VPXORD d, d, d

// COLUMNS512 loads 16 values of four columns.
#define COLUMNS512 \
	VMOVUPS (DI), Z24 \
	VMOVUPS (DI)(R11*1), Z25 \
	VMOVUPS (DI)(R11*2), Z26 \
	VMOVUPS (DI)(R12*1), Z27

// AHEAD asks for the same values of the next four columns: a column is often one page of memory, and the processor's own
// prefetching ends with the page.
#define AHEAD \
	PREFETCHT0 (CX) \
	PREFETCHT0 (CX)(R11*1) \
	PREFETCHT0 (CX)(R11*2) \
	PREFETCHT0 (CX)(R12*1)

// ROW512 adds the products of 16 values of a row with four columns.
#define ROW512(at, a, b, c, d) \
	VMOVUPS at, Z28 \
	VFMADD231PS Z24, Z28, a \
	VFMADD231PS Z25, Z28, b \
	VFMADD231PS Z26, Z28, c \
	VFMADD231PS Z27, Z28, d

// HALVE adds the upper half of a register to its lower half.
#define HALVE(z, y, dst) \
	VEXTRACTF64X4 $1, z, Y29 \
	VADDPS Y29, y, dst

// STORE adds up the lanes of four registers, Y0 to Y3, and writes the sums, added to what is there when BX is not 0; then
// it goes to the next row of y.
#define STORE \
	VHADDPS Y1, Y0, Y0 \
	VHADDPS Y3, Y2, Y2 \
	VHADDPS Y2, Y0, Y0 \
	VEXTRACTF128 $1, Y0, X1 \
	VADDPS X1, X0, X0 \
	TESTQ BX, BX \
	JZ 2(PC) \
	VADDPS (DX), X0, X0 \
	VMOVUPS X0, (DX) \
	ADDQ R13, DX

// func dot6AVX512(n int, x *float32, ldx int, w *float32, ldw int, y *float32, ldy, add int)
TEXT ·dot6AVX512(SB), NOSPLIT, $0-64
	ARGS
	ZERO512(Z0, Z1, Z2, Z3)
	ZERO512(Z4, Z5, Z6, Z7)
	ZERO512(Z8, Z9, Z10, Z11)
	ZERO512(Z12, Z13, Z14, Z15)
	ZERO512(Z16, Z17, Z18, Z19)
	ZERO512(Z20, Z21, Z22, Z23)
	SHRQ $4, AX
	JZ done
loop:
	COLUMNS512
	AHEAD
	ROW512((SI), Z0, Z1, Z2, Z3)
	ROW512((SI)(R8*1), Z4, Z5, Z6, Z7)
	ROW512((SI)(R8*2), Z8, Z9, Z10, Z11)
	ROW512((SI)(R9*1), Z12, Z13, Z14, Z15)
	ROW512((SI)(R8*4), Z16, Z17, Z18, Z19)
	ROW512((SI)(R10*1), Z20, Z21, Z22, Z23)
	ADDQ $64, SI
	ADDQ $64, DI
	ADDQ $64, CX
	DECQ AX
	JNZ loop
done:
	HALVE(Z0, Y0, Y0)
	HALVE(Z1, Y1, Y1)
	HALVE(Z2, Y2, Y2)
	HALVE(Z3, Y3, Y3)
	STORE
	HALVE(Z4, Y4, Y0)
	HALVE(Z5, Y5, Y1)
	HALVE(Z6, Y6, Y2)
	HALVE(Z7, Y7, Y3)
	STORE
	HALVE(Z8, Y8, Y0)
	HALVE(Z9, Y9, Y1)
	HALVE(Z10, Y10, Y2)
	HALVE(Z11, Y11, Y3)
	STORE
	HALVE(Z12, Y12, Y0)
	HALVE(Z13, Y13, Y1)
	HALVE(Z14, Y14, Y2)
	HALVE(Z15, Y15, Y3)
	STORE
	HALVE(Z16, Y16, Y0)
	HALVE(Z17, Y17, Y1)
	HALVE(Z18, Y18, Y2)
	HALVE(Z19, Y19, Y3)
	STORE
	HALVE(Z20, Y20, Y0)
	HALVE(Z21, Y21, Y1)
	HALVE(Z22, Y22, Y2)
	HALVE(Z23, Y23, Y3)
	STORE
	VZEROUPPER
	RET

// func dot4AVX512(n int, x *float32, ldx int, w *float32, ldw int, y *float32, ldy, add int)
TEXT ·dot4AVX512(SB), NOSPLIT, $0-64
	ARGS
	ZERO512(Z0, Z1, Z2, Z3)
	ZERO512(Z4, Z5, Z6, Z7)
	ZERO512(Z8, Z9, Z10, Z11)
	ZERO512(Z12, Z13, Z14, Z15)
	SHRQ $4, AX
	JZ done
loop:
	COLUMNS512
	AHEAD
	ROW512((SI), Z0, Z1, Z2, Z3)
	ROW512((SI)(R8*1), Z4, Z5, Z6, Z7)
	ROW512((SI)(R8*2), Z8, Z9, Z10, Z11)
	ROW512((SI)(R9*1), Z12, Z13, Z14, Z15)
	ADDQ $64, SI
	ADDQ $64, DI
	ADDQ $64, CX
	DECQ AX
	JNZ loop
done:
	HALVE(Z0, Y0, Y0)
	HALVE(Z1, Y1, Y1)
	HALVE(Z2, Y2, Y2)
	HALVE(Z3, Y3, Y3)
	STORE
	HALVE(Z4, Y4, Y0)
	HALVE(Z5, Y5, Y1)
	HALVE(Z6, Y6, Y2)
	HALVE(Z7, Y7, Y3)
	STORE
	HALVE(Z8, Y8, Y0)
	HALVE(Z9, Y9, Y1)
	HALVE(Z10, Y10, Y2)
	HALVE(Z11, Y11, Y3)
	STORE
	HALVE(Z12, Y12, Y0)
	HALVE(Z13, Y13, Y1)
	HALVE(Z14, Y14, Y2)
	HALVE(Z15, Y15, Y3)
	STORE
	VZEROUPPER
	RET

// func dot2AVX512(n int, x *float32, ldx int, w *float32, ldw int, y *float32, ldy, add int)
TEXT ·dot2AVX512(SB), NOSPLIT, $0-64
	ARGS
	ZERO512(Z0, Z1, Z2, Z3)
	ZERO512(Z4, Z5, Z6, Z7)
	SHRQ $4, AX
	JZ done
loop:
	COLUMNS512
	AHEAD
	ROW512((SI), Z0, Z1, Z2, Z3)
	ROW512((SI)(R8*1), Z4, Z5, Z6, Z7)
	ADDQ $64, SI
	ADDQ $64, DI
	ADDQ $64, CX
	DECQ AX
	JNZ loop
done:
	HALVE(Z0, Y0, Y0)
	HALVE(Z1, Y1, Y1)
	HALVE(Z2, Y2, Y2)
	HALVE(Z3, Y3, Y3)
	STORE
	HALVE(Z4, Y4, Y0)
	HALVE(Z5, Y5, Y1)
	HALVE(Z6, Y6, Y2)
	HALVE(Z7, Y7, Y3)
	STORE
	VZEROUPPER
	RET

// func dot1AVX512(n int, x *float32, ldx int, w *float32, ldw int, y *float32, ldy, add int)
TEXT ·dot1AVX512(SB), NOSPLIT, $0-64
	ARGS
	ZERO512(Z0, Z1, Z2, Z3)
	SHRQ $4, AX
	JZ done
loop:
	COLUMNS512
	AHEAD
	ROW512((SI), Z0, Z1, Z2, Z3)
	ADDQ $64, SI
	ADDQ $64, DI
	ADDQ $64, CX
	DECQ AX
	JNZ loop
done:
	HALVE(Z0, Y0, Y0)
	HALVE(Z1, Y1, Y1)
	HALVE(Z2, Y2, Y2)
	HALVE(Z3, Y3, Y3)
	STORE
	VZEROUPPER
	RET

// COLUMN adds the products of 8 values of up to three rows, in Y12 to Y14, with a column.
#define COLUMN1(at, a) \
	VMOVUPS at, Y15 \
	VFMADD231PS Y15, Y12, a

#define COLUMN2(at, a, b) \
	COLUMN1(at, a) \
	VFMADD231PS Y15, Y13, b

#define COLUMN3(at, a, b, c) \
	COLUMN2(at, a, b) \
	VFMADD231PS Y15, Y14, c

// func dot3AVX2(n int, x *float32, ldx int, w *float32, ldw int, y *float32, ldy, add int)
TEXT ·dot3AVX2(SB), NOSPLIT, $0-64
	ARGS
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	VXORPS Y4, Y4, Y4
	VXORPS Y5, Y5, Y5
	VXORPS Y6, Y6, Y6
	VXORPS Y7, Y7, Y7
	VXORPS Y8, Y8, Y8
	VXORPS Y9, Y9, Y9
	VXORPS Y10, Y10, Y10
	VXORPS Y11, Y11, Y11
	SHRQ $3, AX
	JZ done
loop:
	VMOVUPS (SI), Y12
	VMOVUPS (SI)(R8*1), Y13
	VMOVUPS (SI)(R8*2), Y14
	COLUMN3((DI), Y0, Y4, Y8)
	COLUMN3((DI)(R11*1), Y1, Y5, Y9)
	COLUMN3((DI)(R11*2), Y2, Y6, Y10)
	COLUMN3((DI)(R12*1), Y3, Y7, Y11)
	ADDQ $32, SI
	ADDQ $32, DI
	DECQ AX
	JNZ loop
done:
	STORE
	VMOVAPS Y4, Y0
	VMOVAPS Y5, Y1
	VMOVAPS Y6, Y2
	VMOVAPS Y7, Y3
	STORE
	VMOVAPS Y8, Y0
	VMOVAPS Y9, Y1
	VMOVAPS Y10, Y2
	VMOVAPS Y11, Y3
	STORE
	VZEROUPPER
	RET

// func dot2AVX2(n int, x *float32, ldx int, w *float32, ldw int, y *float32, ldy, add int)
TEXT ·dot2AVX2(SB), NOSPLIT, $0-64
	ARGS
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	VXORPS Y4, Y4, Y4
	VXORPS Y5, Y5, Y5
	VXORPS Y6, Y6, Y6
	VXORPS Y7, Y7, Y7
	SHRQ $3, AX
	JZ done
loop:
	VMOVUPS (SI), Y12
	VMOVUPS (SI)(R8*1), Y13
	COLUMN2((DI), Y0, Y4)
	COLUMN2((DI)(R11*1), Y1, Y5)
	COLUMN2((DI)(R11*2), Y2, Y6)
	COLUMN2((DI)(R12*1), Y3, Y7)
	ADDQ $32, SI
	ADDQ $32, DI
	DECQ AX
	JNZ loop
done:
	STORE
	VMOVAPS Y4, Y0
	VMOVAPS Y5, Y1
	VMOVAPS Y6, Y2
	VMOVAPS Y7, Y3
	STORE
	VZEROUPPER
	RET

// func dot1AVX2(n int, x *float32, ldx int, w *float32, ldw int, y *float32, ldy, add int)
TEXT ·dot1AVX2(SB), NOSPLIT, $0-64
	ARGS
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	SHRQ $3, AX
	JZ done
loop:
	VMOVUPS (SI), Y12
	COLUMN1((DI), Y0)
	COLUMN1((DI)(R11*1), Y1)
	COLUMN1((DI)(R11*2), Y2)
	COLUMN1((DI)(R12*1), Y3)
	ADDQ $32, SI
	ADDQ $32, DI
	DECQ AX
	JNZ loop
done:
	STORE
	VZEROUPPER
	RET
