package folding_test

import (
	"fmt"

	"github.com/moeplan/moeplan/folding"
)

func ExampleNew() {
	// TP2 CP2 DP2 PP2 for attention and ETP1 EP4 EDP2 PP2 for experts, over the same 16 ranks.
	f, err := folding.New(folding.Degrees{World: 16, TP: 2, CP: 2, PP: 2, EP: 4, ETP: 1}, folding.DefaultOrder, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	groups, _ := f.Groups(folding.GroupETPEP)
	fmt.Println("token dispatch:", groups)
	at, _ := f.Coordinates(13)
	fmt.Printf("rank 13: %+v\n", at)
	// Output:
	// token dispatch: [[0 1 2 3] [4 5 6 7] [8 9 10 11] [12 13 14 15]]
	// rank 13: {TP:1 CP:0 DP:1 ETP:0 EP:1 EDP:1 PP:1}
}

func ExampleCheck() {
	for _, r := range folding.Check(folding.Degrees{World: 16, TP: 8, CP: 1, PP: 2, EP: 32, ETP: 1}, folding.DefaultOrder, 1) {
		fmt.Println(r)
	}
	// Output:
	// expert-world-divisible: 16 GPUs cannot be divided into MoE replicas of ETP 1 * EP 32 * PP 2 = 64
}
