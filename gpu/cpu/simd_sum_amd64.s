#include "textflag.h"

// Sums of rows; simd_amd64.go describes them. A strip of up to four rows of c stays in registers.

// ARGS loads the arguments: AX count, SI a, R8 its stride, DI b, R11 its stride, DX c, R13 its stride, all in bytes; R9
// and CX are three strides of a and of c.
#define ARGS \
	MOVQ n+0(FP), AX \
	MOVQ a+8(FP), SI \
	MOVQ lda+16(FP), R8 \
	MOVQ b+24(FP), DI \
	MOVQ ldb+32(FP), R11 \
	MOVQ c+40(FP), DX \
	MOVQ ldc+48(FP), R13 \
	SHLQ $2, R8 \
	SHLQ $2, R11 \
	SHLQ $2, R13 \
	LEAQ (R8)(R8*2), R9 \
	LEAQ (R13)(R13*2), CX

// ROWn adds the product of one value of a with n vectors of b to a row's strip.
#define ROW1(at, v, b0, c0) \
	VBROADCASTSS at, v \
	VFMADD231PS b0, v, c0

#define ROW2(at, v, b0, b1, c0, c1) \
	ROW1(at, v, b0, c0) \
	VFMADD231PS b1, v, c1

#define ROW4(at, v, b0, b1, b2, b3, c0, c1, c2, c3) \
	ROW2(at, v, b0, b1, c0, c1) \
	VFMADD231PS b2, v, c2 \
	VFMADD231PS b3, v, c3

// func sum4x64AVX512(n int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int)
TEXT ·sum4x64AVX512(SB), NOSPLIT, $0-56
	ARGS
	VMOVUPS (DX), Z0
	VMOVUPS 64(DX), Z1
	VMOVUPS 128(DX), Z2
	VMOVUPS 192(DX), Z3
	VMOVUPS (DX)(R13*1), Z4
	VMOVUPS 64(DX)(R13*1), Z5
	VMOVUPS 128(DX)(R13*1), Z6
	VMOVUPS 192(DX)(R13*1), Z7
	VMOVUPS (DX)(R13*2), Z8
	VMOVUPS 64(DX)(R13*2), Z9
	VMOVUPS 128(DX)(R13*2), Z10
	VMOVUPS 192(DX)(R13*2), Z11
	VMOVUPS (DX)(CX*1), Z12
	VMOVUPS 64(DX)(CX*1), Z13
	VMOVUPS 128(DX)(CX*1), Z14
	VMOVUPS 192(DX)(CX*1), Z15
	TESTQ AX, AX
	JZ done
loop:
	VMOVUPS (DI), Z16
	VMOVUPS 64(DI), Z17
	VMOVUPS 128(DI), Z18
	VMOVUPS 192(DI), Z19
	ROW4((SI), Z20, Z16, Z17, Z18, Z19, Z0, Z1, Z2, Z3)
	ROW4((SI)(R8*1), Z20, Z16, Z17, Z18, Z19, Z4, Z5, Z6, Z7)
	ROW4((SI)(R8*2), Z20, Z16, Z17, Z18, Z19, Z8, Z9, Z10, Z11)
	ROW4((SI)(R9*1), Z20, Z16, Z17, Z18, Z19, Z12, Z13, Z14, Z15)
	ADDQ $4, SI
	ADDQ R11, DI
	DECQ AX
	JNZ loop
done:
	VMOVUPS Z0, (DX)
	VMOVUPS Z1, 64(DX)
	VMOVUPS Z2, 128(DX)
	VMOVUPS Z3, 192(DX)
	VMOVUPS Z4, (DX)(R13*1)
	VMOVUPS Z5, 64(DX)(R13*1)
	VMOVUPS Z6, 128(DX)(R13*1)
	VMOVUPS Z7, 192(DX)(R13*1)
	VMOVUPS Z8, (DX)(R13*2)
	VMOVUPS Z9, 64(DX)(R13*2)
	VMOVUPS Z10, 128(DX)(R13*2)
	VMOVUPS Z11, 192(DX)(R13*2)
	VMOVUPS Z12, (DX)(CX*1)
	VMOVUPS Z13, 64(DX)(CX*1)
	VMOVUPS Z14, 128(DX)(CX*1)
	VMOVUPS Z15, 192(DX)(CX*1)
	VZEROUPPER
	RET

// func sum4x16AVX512(n int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int)
TEXT ·sum4x16AVX512(SB), NOSPLIT, $0-56
	ARGS
	VMOVUPS (DX), Z0
	VMOVUPS (DX)(R13*1), Z1
	VMOVUPS (DX)(R13*2), Z2
	VMOVUPS (DX)(CX*1), Z3
	TESTQ AX, AX
	JZ done
loop:
	VMOVUPS (DI), Z4
	ROW1((SI), Z5, Z4, Z0)
	ROW1((SI)(R8*1), Z5, Z4, Z1)
	ROW1((SI)(R8*2), Z5, Z4, Z2)
	ROW1((SI)(R9*1), Z5, Z4, Z3)
	ADDQ $4, SI
	ADDQ R11, DI
	DECQ AX
	JNZ loop
done:
	VMOVUPS Z0, (DX)
	VMOVUPS Z1, (DX)(R13*1)
	VMOVUPS Z2, (DX)(R13*2)
	VMOVUPS Z3, (DX)(CX*1)
	VZEROUPPER
	RET

// func sum1x64AVX512(n int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int)
TEXT ·sum1x64AVX512(SB), NOSPLIT, $0-56
	ARGS
	VMOVUPS (DX), Z0
	VMOVUPS 64(DX), Z1
	VMOVUPS 128(DX), Z2
	VMOVUPS 192(DX), Z3
	TESTQ AX, AX
	JZ done
loop:
	VMOVUPS (DI), Z4
	VMOVUPS 64(DI), Z5
	VMOVUPS 128(DI), Z6
	VMOVUPS 192(DI), Z7
	ROW4((SI), Z8, Z4, Z5, Z6, Z7, Z0, Z1, Z2, Z3)
	ADDQ $4, SI
	ADDQ R11, DI
	DECQ AX
	JNZ loop
done:
	VMOVUPS Z0, (DX)
	VMOVUPS Z1, 64(DX)
	VMOVUPS Z2, 128(DX)
	VMOVUPS Z3, 192(DX)
	VZEROUPPER
	RET

// func sum1x16AVX512(n int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int)
TEXT ·sum1x16AVX512(SB), NOSPLIT, $0-56
	ARGS
	VMOVUPS (DX), Z0
	TESTQ AX, AX
	JZ done
loop:
	VMOVUPS (DI), Z1
	ROW1((SI), Z2, Z1, Z0)
	ADDQ $4, SI
	ADDQ R11, DI
	DECQ AX
	JNZ loop
done:
	VMOVUPS Z0, (DX)
	VZEROUPPER
	RET

// func sum4x16AVX2(n int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int)
TEXT ·sum4x16AVX2(SB), NOSPLIT, $0-56
	ARGS
	VMOVUPS (DX), Y0
	VMOVUPS 32(DX), Y1
	VMOVUPS (DX)(R13*1), Y2
	VMOVUPS 32(DX)(R13*1), Y3
	VMOVUPS (DX)(R13*2), Y4
	VMOVUPS 32(DX)(R13*2), Y5
	VMOVUPS (DX)(CX*1), Y6
	VMOVUPS 32(DX)(CX*1), Y7
	TESTQ AX, AX
	JZ done
loop:
	VMOVUPS (DI), Y8
	VMOVUPS 32(DI), Y9
	ROW2((SI), Y10, Y8, Y9, Y0, Y1)
	ROW2((SI)(R8*1), Y10, Y8, Y9, Y2, Y3)
	ROW2((SI)(R8*2), Y10, Y8, Y9, Y4, Y5)
	ROW2((SI)(R9*1), Y10, Y8, Y9, Y6, Y7)
	ADDQ $4, SI
	ADDQ R11, DI
	DECQ AX
	JNZ loop
done:
	VMOVUPS Y0, (DX)
	VMOVUPS Y1, 32(DX)
	VMOVUPS Y2, (DX)(R13*1)
	VMOVUPS Y3, 32(DX)(R13*1)
	VMOVUPS Y4, (DX)(R13*2)
	VMOVUPS Y5, 32(DX)(R13*2)
	VMOVUPS Y6, (DX)(CX*1)
	VMOVUPS Y7, 32(DX)(CX*1)
	VZEROUPPER
	RET

// func sum4x8AVX2(n int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int)
TEXT ·sum4x8AVX2(SB), NOSPLIT, $0-56
	ARGS
	VMOVUPS (DX), Y0
	VMOVUPS (DX)(R13*1), Y1
	VMOVUPS (DX)(R13*2), Y2
	VMOVUPS (DX)(CX*1), Y3
	TESTQ AX, AX
	JZ done
loop:
	VMOVUPS (DI), Y4
	ROW1((SI), Y5, Y4, Y0)
	ROW1((SI)(R8*1), Y5, Y4, Y1)
	ROW1((SI)(R8*2), Y5, Y4, Y2)
	ROW1((SI)(R9*1), Y5, Y4, Y3)
	ADDQ $4, SI
	ADDQ R11, DI
	DECQ AX
	JNZ loop
done:
	VMOVUPS Y0, (DX)
	VMOVUPS Y1, (DX)(R13*1)
	VMOVUPS Y2, (DX)(R13*2)
	VMOVUPS Y3, (DX)(CX*1)
	VZEROUPPER
	RET

// func sum1x16AVX2(n int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int)
TEXT ·sum1x16AVX2(SB), NOSPLIT, $0-56
	ARGS
	VMOVUPS (DX), Y0
	VMOVUPS 32(DX), Y1
	TESTQ AX, AX
	JZ done
loop:
	VMOVUPS (DI), Y2
	VMOVUPS 32(DI), Y3
	ROW2((SI), Y4, Y2, Y3, Y0, Y1)
	ADDQ $4, SI
	ADDQ R11, DI
	DECQ AX
	JNZ loop
done:
	VMOVUPS Y0, (DX)
	VMOVUPS Y1, 32(DX)
	VZEROUPPER
	RET

// func sum1x8AVX2(n int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int)
TEXT ·sum1x8AVX2(SB), NOSPLIT, $0-56
	ARGS
	VMOVUPS (DX), Y0
	TESTQ AX, AX
	JZ done
loop:
	VMOVUPS (DI), Y1
	ROW1((SI), Y2, Y1, Y0)
	ADDQ $4, SI
	ADDQ R11, DI
	DECQ AX
	JNZ loop
done:
	VMOVUPS Y0, (DX)
	VZEROUPPER
	RET
