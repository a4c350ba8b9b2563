// Prints what GJSON, which KEDA uses, finds in the JSON of standard input at a path.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/tidwall/gjson"
)

func main() {
	body, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	value := gjson.GetBytes(body, os.Args[1])
	fmt.Println(value.Type, value.Raw)
}
